#include "lockstep/cli/bench_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/cli/bench_data_peers.h"
#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sets/image_folder.h"
#include "lockstep/data/transform/presets.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// A folder that is gone when the benchmark ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto name = (fs::temp_directory_path() / "lockstep-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw io_error(name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The set, as a training job would read it: a made-up one goes through a pack that is written now.
data::DatasetPtr open(const BenchDataOptions& options, const fs::path& folder) {
  auto set = data::open_set(options.dataset, data::Split::Train, options.set);
  if (options.dataset != "synthetic") return set;
  const data::FoundSet found{.name = "synthetic-train",
                             .files = {},
                             .read = [set] { return set; },
                             .verify = [] { return data::Verification{}; }};
  return data::PackStore(folder, [](const std::string&) {})
      .make(found, folder / "synthetic.pack", {});
}

const data::Field& image_field(const data::Dataset& set) {
  return set.fields()[data::position_of("image", set.fields())];
}

bool is_folder(const data::Dataset& set) {
  return image_field(set).kind == data::FieldKind::AnySizeImage;
}

data::Normalize normalize_for(std::int64_t channels) {
  return channels == 1 ? data::mnist_normalize() : data::imagenet_normalize();
}

/// Pictures of any size become as large as in the classic benchmarks.
constexpr std::int64_t kCrop = 224;

/// Walks through epochs without end, batch by batch, for a while.
class Walk {
 public:
  explicit Walk(data::Loader& loader) : loader_(loader) {}

  /// Seconds per batch.
  Seconds run(Seconds time) {
    const auto start = Clock::now();
    std::int64_t batches = 0;
    while (Clock::now() - start < time) {
      while (!loader_.next()) {
      }
      ++batches;
    }
    return Seconds(Clock::now() - start) / static_cast<double>(batches);
  }

 private:
  data::Loader& loader_;
};

struct Measured {
  int workers = 0;
  std::vector<Seconds> ours;
  std::vector<Seconds> peer;  ///< of the peer that takes turns with us, if there is one
};

/// Copying is the peer of loading without any work, decoding that of loading files.
std::optional<std::string> turn_taking_peer(LoadWork work, const data::Dataset& set) {
  if (is_folder(set)) return "decoding alone";
  if (work == LoadWork::None) return "copying alone";
  return std::nullopt;
}

Seconds measure_peer(const data::Dataset& set, int threads, const BenchDataOptions& options) {
  const auto measure = is_folder(set) ? decode_batch : copy_batch;
  return measure(set, threads, options.batch_size, options.round);
}

Measured measure(const data::DatasetPtr& set, LoadWork work, std::optional<int> workers,
                 const BenchDataOptions& options) {
  const data::TrainOrder order(set->size(), {.batch_size = options.batch_size}, {.seed = 2022});
  data::Loader loader(set, data::micro_batches(order, {0, 1}),
                      {.workers = workers,
                       .buffers = options.buffers,
                       .pipeline = pipeline_of(work, image_field(*set))});
  Measured measured{.workers = loader.workers(), .ours = {}, .peer = {}};
  const bool has_peer = turn_taking_peer(work, *set).has_value();
  Walk walk(loader);
  walk.run(options.round);  // to warm up: pages are mapped, checksums compared
  for (int round = 0; round < options.rounds; ++round) {
    measured.ours.push_back(walk.run(options.round));
    // The consumer fills too, so as many threads load as there are workers and one.
    if (has_peer) measured.peer.push_back(measure_peer(*set, measured.workers + 1, options));
  }
  return measured;
}

BenchRow make_row(const std::string& work, std::string system, std::vector<Seconds> per_batch,
                  std::int64_t batch_size) {
  BenchRow row{work, std::move(system), summarize(std::move(per_batch))};
  row.images_per_second = static_cast<double>(batch_size) / row.timing.median.count();
  return row;
}

void add_ratio(BenchRow& row, Seconds ours) {
  row.ratio = ours / row.timing.median;
}

/// Adds a row for each number of workers of torch, and returns nothing else: the best is visible.
void add_torch_rows(BenchReport& report, const std::string& title, LoadWork work, Seconds ours,
                    const std::vector<TorchResult>& results, std::int64_t batch_size) {
  for (const auto& result : results) {
    if (result.work != work) continue;
    report.rows.push_back(make_row(title, fmt::format("torch, {} workers", result.workers),
                                   result.per_batch, batch_size));
    add_ratio(report.rows.back(), ours);
  }
}

}  // namespace

std::string_view name_of(LoadWork work) noexcept {
  switch (work) {
    case LoadWork::Tutorial:
      return "tutorial";
    case LoadWork::Standard:
      return "standard";
    case LoadWork::None:
      return "none";
  }
  return "?";
}

data::Pipeline pipeline_of(LoadWork work, const data::Field& image) {
  const bool any_size = image.kind == data::FieldKind::AnySizeImage;
  const data::ImageSize size = any_size ? data::ImageSize{kCrop, kCrop} : data::ImageSize{};
  switch (work) {
    case LoadWork::Tutorial:
      return data::tutorial_pipeline();
    case LoadWork::Standard:
      return data::training_pipeline(
          data::Augment::Standard, image,
          {size, normalize_for(image.shape[2]), {DataType::F32, data::Layout::ChannelsFirst}});
    case LoadWork::None:
      return any_size ? data::evaluation_pipeline(image, {size, std::nullopt, {}})
                      : data::Pipeline{};
  }
  return {};
}

data::Pipeline pipeline_without_chance(LoadWork work, const data::Field& image) {
  auto pipeline = pipeline_of(work, image);
  std::erase_if(pipeline.steps, [](const data::Step& step) {
    return std::holds_alternative<data::RandomHorizontalFlip>(step) ||
           std::holds_alternative<data::RandomCrop>(step);
  });
  pipeline.output.layout = data::Layout::ChannelsFirst;
  return pipeline;
}

BenchReport bench_data(const BenchDataOptions& options, const topology::Environment& environment) {
  const TemporaryFolder folder;
  const auto set = open(options, folder.path());
  const auto torch = options.against_torch
                         ? measure_torch(options, *set, folder.path(), environment)
                         : std::vector<TorchResult>{};
  BenchReport report{"data", {}};
  for (const auto work : options.works) {
    const auto title = fmt::format("load {}, batch {}", name_of(work), options.batch_size);
    std::optional<Seconds> best;
    for (const auto workers : options.workers) {
      auto measured = measure(set, work, workers, options);
      report.rows.push_back(make_row(title, fmt::format("lockstep, {} workers", measured.workers),
                                     std::move(measured.ours), options.batch_size));
      const auto ours = report.rows.back().timing.median;
      best = std::min(best.value_or(ours), ours);
      if (const auto peer = turn_taking_peer(work, *set)) {
        report.rows.push_back(make_row(title,
                                       fmt::format("{}, {} threads", *peer, measured.workers + 1),
                                       std::move(measured.peer), options.batch_size));
        add_ratio(report.rows.back(), ours);
      }
    }
    add_torch_rows(report, title, work, *best, torch, options.batch_size);
  }
  return report;
}

}  // namespace lockstep::cli
