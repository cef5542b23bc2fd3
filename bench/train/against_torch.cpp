#include "bench/train/against_torch.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>

#include "bench/driver/programs.h"
#include "bench/driver/run_to_end.h"
#include "bench/driver/scratch_files.h"
#include "bench/train/images.h"
#include "bench/train/runs.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/installed_programs.h"

namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr double kLearningRate = 0.1;
constexpr double kMomentum = 0.9;
/// Number of steps of a job that only reduces and updates.
constexpr int kUpdateSteps = 10;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::int64_t samples_per_step(const AgainstTorchOptions& options) {
  return options.batch_size * options.instances;
}

/// A command in several instances. Only the output of instance 0 is shown.
Words in_instances(const TrainPrograms& programs, int instances, const Words& worker) {
  return joined({programs.lockstep, "run", "-q", "--num-instances", std::to_string(instances),
                 "--threads-per-device", "1", "--tag-output", "never",
                 "--only-output-from-instance", "0", "--"},
                worker);
}

/// A system that takes turns with others: its command, and a function that reads the results.
struct TrainContender {
  std::string name;
  Words command;
  /// `output` is the standard output of the command.
  std::function<TrainRun(const std::string& output, const TrainStart& start)> read;
  std::vector<TrainRun> runs{};
};

TrainContender lockstep_contender(const AgainstTorchOptions& options, const TrainPrograms& programs,
                                  const TrainImages& data, const fs::path& folder) {
  const std::string name = "lockstep";
  const auto summary = folder / "summary.json";
  const auto samples = std::to_string(samples_per_step(options) * options.steps);
  const auto instances = std::to_string(options.instances);
  return {name,
          {programs.lockstep, "train", "--num-instances", instances, "--replicas", instances,
           "--threads-per-device", "1", "--model", "resnet20", "--dataset", data.pack,
           "--batch-size", std::to_string(options.batch_size), "--augment", "standard",
           "--optimizer", "sgd", "--lr", fmt::to_string(kLearningRate), "--momentum",
           fmt::to_string(kMomentum), "--epochs", "1", "--limit-train", samples,
           // The pack is also the test set. One batch is enough and is not counted.
           "--limit-test", std::to_string(samples_per_step(options)), "--eval-every", "0",
           "--summary", summary},
          [=](const std::string& /*output*/, const TrainStart& start) {
            return read_lockstep_run(name, read_file(summary), start);
          }};
}

fs::path write_torch_job(const AgainstTorchOptions& options, const TrainImages& data,
                         const fs::path& folder) {
  const nlohmann::json job{{"images", data.pixels},
                           {"labels", data.labels},
                           {"height", kImageSide},
                           {"width", kImageSide},
                           {"channels", kImageChannels},
                           {"classes", kImageClasses},
                           {"padding", kImageSide / 8},
                           {"mean", data.normalize.mean},
                           {"std", data.normalize.deviation},
                           {"batch_size", options.batch_size},
                           {"lr", kLearningRate},
                           {"momentum", kMomentum}};
  auto path = folder / "job.json";
  write_file(path, job.dump());
  return path;
}

std::vector<TrainContender> contenders_of(const AgainstTorchOptions& options,
                                          const TrainPrograms& programs, const TrainImages& data,
                                          const fs::path& folder) {
  std::vector<TrainContender> all{lockstep_contender(options, programs, data, folder)};
  const auto job = write_torch_job(options, data, folder);
  for (const std::string layout : {"contiguous", "channels_last"}) {
    for (const int workers : {0, 1}) {
      const auto name = fmt::format("torch, {}, {} workers", layout, workers);
      const Words rank{programs.peer.python, programs.peer.script,    "--job",    job,
                       "--workers",          std::to_string(workers), "--layout", layout};
      all.push_back({name, in_instances(programs, options.instances, rank),
                     [name](const std::string& output, const TrainStart& start) {
                       return read_torch_run(name, output, start);
                     }});
    }
  }
  return all;
}

template <typename Select>
auto select(const TrainContender& contender, const Select& member) {
  std::vector<std::decay_t<decltype(std::invoke(member, contender.runs.front()))>> values;
  for (const auto& run : contender.runs) values.push_back(std::invoke(member, run));
  return values;
}

/// Adds a row for each contender. The first is lockstep, with which the others are compared.
template <typename MakeRow>
void add_rows(Report& report, const std::vector<TrainContender>& contenders,
              const MakeRow& make_row) {
  const auto ours = report.rows.size();
  for (const auto& contender : contenders) {
    auto row = make_row(contender);
    if (report.rows.size() > ours) {
      row.ratio = report.rows[ours].timing.median / row.timing.median;
    }
    report.rows.push_back(std::move(row));
  }
}

void measure_training(const AgainstTorchOptions& options, const TrainPrograms& programs,
                      const topology::Environment& environment, Report& report) {
  const TemporaryFolder folder;
  const auto per_step = samples_per_step(options);
  const auto data = write_train_data(per_step * options.steps, folder.path());
  auto contenders = contenders_of(options, programs, data, folder.path());
  for (int round = -1; round < options.rounds; ++round) {
    for (auto& contender : contenders) {
      const TrainStart start{unix_now(), options.steps, kImageClasses};
      const auto run = contender.read(run_to_end(contender.command, environment).output, start);
      if (round >= 0) contender.runs.push_back(run);
    }
  }
  const auto job = fmt::format("resnet20, batch {}, {} instances x 1 thread", options.batch_size,
                               options.instances);
  add_rows(report, contenders, [&](const TrainContender& contender) {
    Row row{.work = "train " + job,
            .system = contender.name,
            .timing = summarize(select(contender, &TrainRun::per_step))};
    row.images_per_second = static_cast<double>(per_step) / row.timing.median.count();
    row.data_share = median_of(select(contender, &TrainRun::data_share));
    return row;
  });
  add_rows(report, contenders, [&](const TrainContender& contender) {
    return Row{.work = "launch to first step, " + job,
               .system = contender.name,
               .timing = summarize(select(contender, &TrainRun::to_first_step))};
  });
}

/// Runs a job that only reduces and updates. Returns the time of each step.
std::vector<Seconds> time_updates(const std::string& system, const Words& command,
                                  const topology::Environment& environment) {
  return read_update_times(system, run_to_end(command, environment).output);
}

void measure_updates(const AgainstTorchOptions& options, const TrainPrograms& programs,
                     int instances, const topology::Environment& environment, Report& report) {
  const auto steps = std::to_string(kUpdateSteps);
  const auto our_command =
      in_instances(programs, instances, {programs.bench, "update-worker", "resnet50", steps});
  const auto their_command =
      in_instances(programs, instances,
                   {programs.peer.python, programs.peer.script, "--update", "--rounds", steps});
  std::vector<Seconds> ours;
  std::vector<Seconds> theirs;
  for (int round = 0; round < options.rounds; ++round) {
    std::ranges::copy(time_updates("lockstep", our_command, environment), std::back_inserter(ours));
    std::ranges::copy(time_updates("torch", their_command, environment),
                      std::back_inserter(theirs));
  }
  const auto work = fmt::format("reduce + SGD update, 25.6 M parameters, {} instances", instances);
  report.rows.push_back({work, "lockstep", summarize(std::move(ours))});
  const auto our_median = report.rows.back().timing.median;
  report.rows.push_back({work, "torch", summarize(std::move(theirs))});
  report.rows.back().ratio = our_median / report.rows.back().timing.median;
}

}  // namespace

std::string_view name_of(TrainWork work) noexcept {
  switch (work) {
    case TrainWork::Train:
      return "train";
    case TrainWork::Update:
      return "update";
  }
  return "?";
}

TrainWork parse_train_work(std::string_view where, const std::string& name) {
  std::vector<std::string> names;
  for (const auto work : kTrainWorks) names.emplace_back(name_of(work));
  cli::check_choice(where, name, names);
  return kTrainWorks[std::find(names.begin(), names.end(), name) - names.begin()];
}

TrainPrograms find_train_programs(const topology::Environment& environment) {
  cli::program_beside("lockstep-train");  // the jobs need it
  return {lockstep_program(), cli::own_program(),
          find_python_peer("bench train: --against torch", "torch_train.py", environment)};
}

Report measure_against_torch(const AgainstTorchOptions& options, const TrainPrograms& programs,
                             const topology::Environment& environment) {
  Report report{.name = "train", .rows = {}};
  for (const auto work : options.works) {
    if (work == TrainWork::Train) {
      measure_training(options, programs, environment, report);
      continue;
    }
    for (const auto instances : options.update_instances) {
      measure_updates(options, programs, instances, environment, report);
    }
  }
  return report;
}

}  // namespace lockstep::bench
