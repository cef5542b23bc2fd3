#include "bench/train/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

#include "bench/driver/programs.h"
#include "bench/driver/run_to_end.h"
#include "bench/driver/scratch_files.h"
#include "bench/train/runs.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/image_size.h"
#include "lockstep/nn/zoo/network_names.h"
#include "lockstep/plan/forecast.h"
#include "lockstep/plan/plan_json.h"
#include "lockstep/ui/table.h"

namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Schedule = std::optional<PipelineSchedule>;  ///< nothing: a single stage

/// A schedule that takes turns with others.
struct ScheduleContender {
  std::string name;
  Schedule schedule{};
  Words command{};
  std::vector<TrainRun> runs{};
};

std::int64_t samples_per_step(const PipelineOptions& options) {
  return options.batch_size * options.gradient_accumulation;
}

/// The options that planning and all jobs have in common. The set has exactly the samples of a job.
Words common_options(const PipelineOptions& options, const fs::path& folder) {
  return {"--model", options.model, "--dataset", "synthetic", "--size",
          std::to_string(samples_per_step(options) * options.steps), "--image-size",
          options.image_size, "--augment", "none", "--batch-size",
          std::to_string(options.batch_size), "--gradient-accumulation",
          std::to_string(options.gradient_accumulation), "--threads-per-device", "1",
          // So low that the loss stays finite for any number of steps.
          "--lr", "0.01", "--cache-path", folder / "cache"};
}

Words stage_options(const PipelineOptions& options, PipelineSchedule schedule) {
  return {"--devices-per-replica", std::to_string(options.devices_per_replica), "--pipeline",
          std::string(name_of(schedule))};
}

plan::Plan measure_stages(const PipelineOptions& options, const std::string& program,
                          const fs::path& folder, const topology::Environment& environment) {
  const auto file = folder / "plan.json";
  auto command = joined({program, "plan"}, common_options(options, folder));
  command = joined(command, stage_options(options, PipelineSchedule::OneForwardOneBackward));
  run_to_end(joined(command, {"--json", file}), environment);
  return plan::plan_from_json(read_file(file));
}

/// "layer2.0,layer3.0".
std::string split_text(const plan::Plan& plan) {
  Words beginnings;
  for (const auto& stage : plan.stages) beginnings.push_back(stage.begins_with);
  return fmt::format("{}", fmt::join(beginnings.begin() + 1, beginnings.end(), ","));
}

ScheduleContender contender_of(const Schedule& schedule, const PipelineOptions& options,
                               const std::string& program, const plan::Plan& plan,
                               const fs::path& folder) {
  ScheduleContender made{schedule ? std::string(name_of(*schedule)) : "whole", schedule};
  made.command = joined({program, "train"}, common_options(options, folder));
  if (schedule) {
    made.command = joined(made.command, stage_options(options, *schedule));
    // Without --split, the job would measure the stages again and might choose others.
    made.command = joined(made.command, {"--split", split_text(plan)});
  }
  // One micro-batch is enough for the test, and is not counted.
  made.command = joined(made.command,
                        {"--epochs", "1", "--eval-every", "0", "--limit-test",
                         std::to_string(options.batch_size), "--summary", folder / "summary.json"});
  return made;
}

/// Refuses the times of a schedule that computes other weights.
void check_same_weights(const std::vector<ScheduleContender>& contenders) {
  const auto& expected = contenders.front().runs.back().weights;
  const auto is_same = [&](const ScheduleContender& each) {
    return each.runs.back().weights == expected;
  };
  if (std::ranges::all_of(contenders, is_same)) return;
  Words found;
  for (const auto& each : contenders) {
    found.push_back(fmt::format("{} with {}", each.name, each.runs.back().weights));
  }
  throw Error(
      ErrorKind::Bug,
      fmt::format("bench pipeline: expected all jobs to end with the same weights, found {}",
                  fmt::join(found, ", ")));
}

void run_round(const PipelineOptions& options, const fs::path& folder,
               const topology::Environment& environment,
               std::vector<ScheduleContender>& contenders) {
  for (auto& contender : contenders) {
    const TrainStart start{.unix_s = unix_now(), .steps = options.steps, .bench = "bench pipeline"};
    run_to_end(contender.command, environment);
    contender.runs.push_back(
        read_lockstep_run(contender.name, read_file(folder / "summary.json"), start));
  }
  check_same_weights(contenders);
}

/// The speed of a schedule relative to one stage at a time, computed from the times of the stages
/// alone.
double allowed_by_stages(const plan::Plan& plan, PipelineSchedule schedule) {
  plan::FlowShape flow{.schedule = schedule,
                       .micro_batches = plan.micro_batches,
                       .device_of = {std::vector<int>(plan.stages.size())},
                       .most_batches = plan.micro_batches};
  const auto& devices = plan.instances.front().devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (const auto& placed : devices[i].stages) {
      flow.device_of.front()[static_cast<std::size_t>(placed.stage)] = static_cast<int>(i);
    }
  }
  std::vector<plan::StageTimes> times;
  for (const auto& stage : plan.stages) times.push_back({stage.forward_s, stage.backward_s});
  return plan.sequential_s / plan::forecast(flow, times).seconds;
}

PipelineRow row_of(const ScheduleContender& contender, const PipelineOptions& options,
                   const plan::Plan& plan) {
  std::vector<Seconds> steps;
  std::vector<double> idle;
  for (const auto& run : contender.runs) {
    steps.push_back(run.per_step);
    idle.push_back(run.idle_share);
  }
  std::ranges::sort(idle);
  PipelineRow row{.schedule = contender.name,
                  .timing = summarize(std::move(steps)),
                  .idle_share = idle[(idle.size() - 1) / 2]};
  row.images_per_second =
      static_cast<double>(samples_per_step(options)) / row.timing.median.count();
  if (contender.schedule) row.allowed = allowed_by_stages(plan, *contender.schedule);
  return row;
}

std::optional<double> share_of_allowed(const PipelineRow& row) {
  if (!row.allowed) return std::nullopt;
  return row.times_sequential / *row.allowed;
}

std::string speed_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

/// "layer3.8..fc".
std::string blocks_text(const plan::StagePlan& stage) {
  return stage.num_blocks == 1 ? stage.begins_with
                               : fmt::format("{}..{}", stage.begins_with, stage.ends_with);
}

nlohmann::ordered_json to_json(const PipelineRow& row, const std::string& work) {
  nlohmann::ordered_json json{{"work", work},
                              {"system", row.schedule},
                              {"median_s", row.timing.median.count()},
                              {"p99_s", row.timing.p99.count()},
                              {"rounds", row.timing.rounds},
                              {"images_per_second", row.images_per_second},
                              {"times_sequential", row.times_sequential}};
  if (row.allowed) {
    json["allowed"] = *row.allowed;
    json["share_of_allowed"] = *share_of_allowed(row);
  }
  json["idle_share"] = row.idle_share;
  return json;
}

}  // namespace

void check(const PipelineOptions& options) {
  cli::check_choice("bench pipeline: --model", options.model,
                    std::vector<std::string>(nn::kNetworkNames.begin(), nn::kNetworkNames.end()));
  cli::parse_image_size("bench pipeline", options.image_size);
}

std::string PipelineReport::to_table() const {
  ui::Table table(
      {"schedule", "images/s", "times sequential", "allowed by the stages", "of that", "idle"});
  for (const auto& row : rows) {
    table.add({row.schedule, fmt::format("{:.1f}", row.images_per_second),
               speed_text(row.times_sequential), speed_text(row.allowed),
               speed_text(share_of_allowed(row)), fmt::format("{:.1f} %", 100 * row.idle_share)});
  }
  auto text = work + "\n\n" + table.to_string() + "\n";
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    text += fmt::format("stage {}, {}: forward {:.2f} ms, backward {:.2f} ms\n", i,
                        blocks_text(stage), 1e3 * stage.forward_s, 1e3 * stage.backward_s);
  }
  return text;
}

std::string PipelineReport::to_json() const {
  auto json = report_head("pipeline");
  for (const auto& row : rows) json["rows"].push_back(bench::to_json(row, work));
  for (const auto& stage : plan.stages) {
    json["stages"].push_back({{"begins_with", stage.begins_with},
                              {"ends_with", stage.ends_with},
                              {"forward_s", stage.forward_s},
                              {"backward_s", stage.backward_s}});
  }
  json["plan"] = {{"step_s", plan.step_s}, {"sequential_s", plan.sequential_s}};
  return json.dump(2) + "\n";
}

PipelineReport measure_pipeline(const PipelineOptions& options, const std::string& program,
                                const topology::Environment& environment) {
  check(options);
  const TemporaryFolder folder;
  PipelineReport report{
      .work = fmt::format("train {}, {}, batch {}, accumulation {}, {} devices x 1 thread",
                          options.model, options.image_size, options.batch_size,
                          options.gradient_accumulation, options.devices_per_replica),
      .plan = measure_stages(options, program, folder.path(), environment),
      .rows = {}};
  std::vector<ScheduleContender> contenders;
  for (const auto& schedule :
       {Schedule{}, Schedule{PipelineSchedule::Sequential}, Schedule{PipelineSchedule::GPipe},
        Schedule{PipelineSchedule::OneForwardOneBackward}}) {
    contenders.push_back(contender_of(schedule, options, program, report.plan, folder.path()));
  }
  for (int round = 0; round < options.rounds; ++round) {
    run_round(options, folder.path(), environment, contenders);
  }
  for (const auto& each : contenders) report.rows.push_back(row_of(each, options, report.plan));
  const auto sequential = report.rows[1].timing.median;
  for (auto& row : report.rows) row.times_sequential = sequential / row.timing.median;
  return report;
}

}  // namespace lockstep::bench
