#include "bench/data/peers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "bench/driver/python_peer.h"
#include "bench/driver/run_to_end.h"
#include "bench/driver/scratch_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"
#include "lockstep/data/formats/decode_image.h"
#include "lockstep/data/sampling/permutation.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The most images that torch gets. Reading them is not measured.
constexpr std::int64_t kMostPictures = 20'000;
/// The most images whose results are compared.
constexpr std::int64_t kMostChecked = 16;
constexpr int kTorchRounds = 3;
/// The most files that are kept in memory to measure decoding.
constexpr std::int64_t kMostFiles = 1000;

/// Lets threads call `work(thread, n, sample)` for samples in random order, where n counts the
/// samples of the thread. Returns the time of all threads together for a batch. Each thread has its
/// own clock, so that idle time at the end does not count.
template <typename Work>
Seconds time_batches(std::int64_t samples, int threads, std::int64_t batch_size, Seconds time,
                     const Work& work) {
  const data::Permutation order(7, 0, samples);
  std::atomic<std::int64_t> next{0};
  std::vector<double> rates(static_cast<std::size_t>(threads));  // samples per second
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        constexpr std::int64_t kAtATime = 16;
        const auto start = Clock::now();
        std::int64_t nth = 0;
        while (Clock::now() - start < time) {
          const auto first = next.fetch_add(kAtATime);
          for (std::int64_t i = 0; i < kAtATime; ++i) {
            work(thread, nth++, order((first + i) % samples));
          }
        }
        rates[static_cast<std::size_t>(thread)] =
            static_cast<double>(nth) / Seconds(Clock::now() - start).count();
      });
    }
  }
  const auto rate = std::accumulate(rates.begin(), rates.end(), 0.0);
  return Seconds(static_cast<double>(batch_size) / rate);
}

/// The addresses of the values of a field, by sample. The set must keep its values in memory.
std::vector<const std::byte*> records_of(const data::Dataset& set, std::size_t field) {
  std::vector<const std::byte*> records;
  data::Sample sample(set.fields());
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.sample(i, sample);
    records.push_back(sample.data(field));
  }
  return records;
}

std::string source_folder(const DataOptions& options) {
  const auto root = options.set.data_dir.empty() ? fs::path("datasets") : options.set.data_dir;
  return fs::exists(root / "train") ? root / "train" : root;
}

/// The job for the script.
nlohmann::json job_of(const DataOptions& options, const data::Field& image, std::int64_t checked,
                      const fs::path& folder) {
  const bool any_size = image.kind == data::FieldKind::AnySizeImage;
  const auto standard = pipeline_of(LoadWork::Standard, image);
  nlohmann::json job{{"folder", any_size ? source_folder(options) : ""},
                     {"images", folder / "pictures"},
                     {"height", image.shape[0]},
                     {"width", image.shape[1]},
                     {"channels", image.shape[2]},
                     {"batch_size", options.batch_size},
                     {"workers", {0, 1, 2, 4}},
                     {"rounds", kTorchRounds},
                     {"seconds", 2.0},
                     {"checked", checked},
                     {"pipelines", nlohmann::json::array()},
                     {"check", nlohmann::json::object()}};
  for (const auto& step : standard.steps) {
    if (const auto* const crop = std::get_if<data::RandomCrop>(&step)) {
      job["padding"] = crop->padding;
    } else if (const auto* const resized = std::get_if<data::RandomResizedCrop>(&step)) {
      job["crop"] = {resized->height, resized->width};
    } else if (const auto* const normalize = std::get_if<data::Normalize>(&step)) {
      job["mean"] = normalize->mean;
      job["std"] = normalize->deviation;
    }
  }
  for (const auto work : options.works) {
    job["pipelines"].push_back(name_of(work));
    job["check"][std::string(name_of(work))] = folder / fmt::format("check-{}", name_of(work));
  }
  return job;
}

/// The largest difference between the numbers of lockstep and of torch.
template <typename T>
double largest_difference(const std::string& theirs, const std::vector<std::byte>& ours) {
  double largest = 0;
  for (std::size_t i = 0; i + sizeof(T) <= ours.size(); i += sizeof(T)) {
    T a{};
    T b{};
    std::memcpy(&a, theirs.data() + i, sizeof a);
    std::memcpy(&b, ours.data() + i, sizeof b);
    largest = std::max(largest, std::abs(static_cast<double>(a) - static_cast<double>(b)));
  }
  return largest;
}

void check_against_torch(LoadWork work, const data::Dataset& set, std::size_t field,
                         std::int64_t checked, const std::string& theirs) {
  const data::Transform transform(pipeline_without_chance(work, set.fields()[field]),
                                  set.fields()[field]);
  const auto each = bytes_of(transform.output_field());
  std::vector<std::byte> ours(each * static_cast<std::size_t>(checked));
  data::Sample sample(set.fields());
  data::Scratch scratch;
  for (std::int64_t i = 0; i < checked; ++i) {
    set.sample(i, sample);
    transform.apply(sample.image(field), {}, scratch,
                    ours.data() + static_cast<std::size_t>(i) * each);
  }
  const bool is_same_size = theirs.size() == ours.size();
  const bool is_u8 = transform.output_field().type == DataType::U8;
  const auto difference = !is_same_size ? 0
                          : is_u8       ? largest_difference<std::uint8_t>(theirs, ours)
                                        : largest_difference<float>(theirs, ours);
  if (is_same_size && difference <= (is_u8 ? 1.0 : 1e-6)) return;
  throw Error(ErrorKind::Bug,
              fmt::format("bench data: {}: expected {} bytes as torchvision makes them, found {} "
                          "with a largest difference of {}",
                          name_of(work), theirs.size(), ours.size(), difference));
}

std::vector<TorchResult> parse_results(const std::string& output) {
  std::vector<TorchResult> results;
  for (const auto line : split(output, '\n')) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line);
    TorchResult result{parse_load_work("bench data: the peer's work", json.at("pipeline")),
                       json.at("workers"),
                       {}};
    for (const double seconds : json.at("seconds_per_batch")) {
      result.per_batch.emplace_back(seconds);
    }
    if (!result.per_batch.empty()) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

Seconds copy_batch(const data::Dataset& set, int threads, std::int64_t batch_size, Seconds time) {
  const auto field = data::position_of("image", set.fields());
  const auto bytes = bytes_of(set.fields()[field]);
  const auto records = records_of(set, field);
  // Several batches, as in a loader, so that the written values do not stay in the cache.
  constexpr std::int64_t kBatches = 4;
  const auto room = static_cast<std::size_t>(batch_size * kBatches) * bytes;
  std::vector<std::vector<std::byte>> memory(static_cast<std::size_t>(threads));
  for (auto& own : memory) own.resize(room);
  return time_batches(
      set.size(), threads, batch_size, time, [&](int thread, std::int64_t nth, std::int64_t index) {
        auto& own = memory[static_cast<std::size_t>(thread)];
        const auto at = static_cast<std::size_t>(nth % (batch_size * kBatches)) * bytes;
        std::memcpy(own.data() + at, records[static_cast<std::size_t>(index)], bytes);
      });
}

Seconds decode_batch(const data::ImageFolder& folder, int threads, std::int64_t batch_size,
                     Seconds time) {
  std::vector<std::string> files;
  for (std::int64_t i = 0; i < std::min(folder.size(), kMostFiles); ++i) {
    files.push_back(folder.stored_bytes(i));
  }
  std::vector<std::vector<std::uint8_t>> memory(static_cast<std::size_t>(threads));
  const auto decode = [&](int thread, std::int64_t /*nth*/, std::int64_t index) {
    auto& own = memory[static_cast<std::size_t>(thread)];
    data::decode_image(data::as_bytes(files[static_cast<std::size_t>(index)]), "a file",
                       [&](data::ImageSize size) {
                         const auto bytes = static_cast<std::size_t>(size.height * size.width * 3);
                         if (own.size() < bytes) own.resize(bytes);
                         return std::span(own).first(bytes);
                       });
  };
  return time_batches(std::ssize(files), threads, batch_size, time, decode);
}

std::vector<TorchResult> measure_torch(const DataOptions& options, const data::Dataset& set,
                                       const fs::path& folder,
                                       const topology::Environment& environment) {
  const auto peer = find_python_peer("bench data: --against torch", "torch_loader.py", environment);
  const auto field = data::position_of("image", set.fields());
  const auto checked = std::min(set.size(), kMostChecked);
  const auto job = job_of(options, set.fields()[field], checked, folder);
  const bool any_size = set.fields()[field].kind == data::FieldKind::AnySizeImage;
  if (!any_size) {
    write_values(set, field, std::min(set.size(), kMostPictures), folder / "pictures");
  }
  write_file(folder / "job.json", job.dump());
  const auto finished = run_to_end({peer.python, peer.script, folder / "job.json"}, environment);
  for (const auto work : options.works) {
    if (any_size) continue;
    check_against_torch(work, set, field, checked,
                        read_file(job["check"][std::string(name_of(work))]));
  }
  return parse_results(finished.output);
}

}  // namespace lockstep::bench
