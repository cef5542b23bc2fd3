#include "bench/data/measure_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "bench/data/peers.h"
#include "bench/driver/scratch_files.h"
#include "lockstep/base/error.h"
#include "lockstep/cli/choice.h"
#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sets/find_set.h"
#include "lockstep/data/sets/image_folder.h"
#include "lockstep/data/transform/presets.h"

namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Opens the set as a training job reads it. A synthetic set is written to a pack first. A folder
/// of images is read from its files, even if there is a pack of it.
data::DatasetPtr open(const DataOptions& options, const fs::path& folder) {
  const auto split = data::Split::Train;
  if (options.dataset == "folder")
    return data::find_set(options.dataset, split, options.set).read();
  if (options.dataset != "synthetic") return data::open_set(options.dataset, split, options.set);
  return data::PackStore(folder, [](const std::string&) {})
      .make(data::find_set(options.dataset, split, options.set), folder / "synthetic.pack", {});
}

const data::Field& image_field(const data::Dataset& set) {
  const auto& field = set.fields()[data::position_of("image", set.fields())];
  if (field.type == DataType::U8 && field.shape.size() == 3) return field;
  throw Error(ErrorKind::Options,
              fmt::format("bench data: expected pictures of 8 bits, found {}", describe(field)));
}

data::Normalize normalize_for(std::int64_t channels) {
  return channels == 1 ? data::mnist_normalize() : data::imagenet_normalize();
}

/// The size to which images of varying sizes are cropped, as in the classic benchmarks.
constexpr std::int64_t kCrop = 224;

/// The smallest number of batches in a measurement.
constexpr std::int64_t kFewestBatches = 8;

/// A loader that exists for one measurement, so that its threads do not disturb others.
class LoaderRun {
 public:
  LoaderRun(const data::DatasetPtr& set, LoadWork work, std::optional<int> workers,
            const DataOptions& options)
      : loader_(set, data::micro_batches(order_of(*set, options), {0, 1}),
                {.workers = workers,
                 .buffers = options.buffers,
                 .pipeline = pipeline_of(work, image_field(*set))}),
        buffers_(options.buffers) {}

  int workers() const { return loader_.workers(); }

  /// Seconds per batch. First takes the batches that were filled before the clock starts.
  Seconds measure(Seconds time) {
    for (int i = 0; i <= buffers_; ++i) take();
    const auto start = Clock::now();
    std::int64_t batches = 0;
    while (batches < kFewestBatches || Clock::now() - start < time) {
      take();
      ++batches;
    }
    return Seconds(Clock::now() - start) / static_cast<double>(batches);
  }

 private:
  static data::TrainOrder order_of(const data::Dataset& set, const DataOptions& options) {
    return {set.size(), {.batch_size = options.batch_size}, {.seed = 2022}};
  }

  /// Takes a batch. After the last epoch another begins.
  void take() {
    while (!loader_.next()) {
    }
  }

  data::Loader loader_;
  int buffers_;
};

struct Measured {
  int workers = 0;
  std::vector<Seconds> ours;
  std::vector<Seconds> peer;  ///< of the peer, if there is one
};

/// A simpler task that takes turns with the loader: decoding for loading files, copying for loading
/// without any work.
struct TurnTakingPeer {
  std::string name;
  std::function<Seconds(int threads)> measure;
};

std::optional<TurnTakingPeer> peer_of(LoadWork work, const data::DatasetPtr& set,
                                      const DataOptions& options) {
  if (const auto* const folder = dynamic_cast<const data::ImageFolder*>(set.get())) {
    return TurnTakingPeer{"decoding alone", [=](int threads) {
                            return decode_batch(*folder, threads, options.batch_size,
                                                options.round);
                          }};
  }
  if (work != LoadWork::None || image_field(*set).kind != data::FieldKind::Fixed) return {};
  return TurnTakingPeer{"copying alone", [=](int threads) {
                          return copy_batch(*set, threads, options.batch_size, options.round);
                        }};
}

Measured measure(const data::DatasetPtr& set, LoadWork work, std::optional<int> workers,
                 const DataOptions& options, const std::optional<TurnTakingPeer>& peer) {
  Measured measured;
  for (int round = -1; round < options.rounds; ++round) {
    const auto time = [&] {
      LoaderRun run(set, work, workers, options);
      measured.workers = run.workers();
      return run.measure(options.round);
    }();
    if (round < 0) continue;  // warm-up: maps pages, compares checksums
    measured.ours.push_back(time);
    // The consumer fills batches too, so there is one more loading thread than there are workers.
    if (peer) measured.peer.push_back(peer->measure(measured.workers + 1));
  }
  return measured;
}

Row make_row(const std::string& work, std::string system, std::vector<Seconds> per_batch,
             std::int64_t batch_size) {
  Row row{work, std::move(system), summarize(std::move(per_batch))};
  row.images_per_second = static_cast<double>(batch_size) / row.timing.median.count();
  return row;
}

void add_ratio(Row& row, Seconds ours) {
  row.ratio = ours / row.timing.median;
}

/// Adds a row for each number of workers of torch.
void add_torch_rows(Report& report, const std::string& title, LoadWork work, Seconds ours,
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

LoadWork parse_load_work(std::string_view where, const std::string& name) {
  std::vector<std::string> names;
  for (const auto work : kLoadWorks) names.emplace_back(name_of(work));
  cli::check_choice(where, name, names);
  return kLoadWorks[std::find(names.begin(), names.end(), name) - names.begin()];
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

Report measure_data(const DataOptions& options, const topology::Environment& environment) {
  const TemporaryFolder folder;
  const auto set = open(options, folder.path());
  data::iterations_per_epoch(set->size(), {.batch_size = options.batch_size});
  image_field(*set);
  const auto torch = options.against_torch
                         ? measure_torch(options, *set, folder.path(), environment)
                         : std::vector<TorchResult>{};
  Report report{"data", {}};
  for (const auto work : options.works) {
    const auto title = fmt::format("load {}, batch {}", name_of(work), options.batch_size);
    const auto peer = peer_of(work, set, options);
    std::optional<Seconds> best;
    for (const auto workers : options.workers) {
      auto measured = measure(set, work, workers, options, peer);
      report.rows.push_back(make_row(title, fmt::format("lockstep, {} workers", measured.workers),
                                     std::move(measured.ours), options.batch_size));
      const auto ours = report.rows.back().timing.median;
      best = std::min(best.value_or(ours), ours);
      if (peer) {
        report.rows.push_back(
            make_row(title, fmt::format("{}, {} threads", peer->name, measured.workers + 1),
                     std::move(measured.peer), options.batch_size));
        add_ratio(report.rows.back(), ours);
      }
    }
    add_torch_rows(report, title, work, *best, torch, options.batch_size);
  }
  return report;
}

}  // namespace lockstep::bench
