#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/bench_report.h"
#include "lockstep/plan/plan.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

struct BenchPipelineOptions {
  std::string model = "resnet50";
  std::string image_size = "32x32";
  std::int64_t batch_size = 8;
  std::int64_t gradient_accumulation = 8;
  int devices_per_replica = 2;  ///< each has one thread
  std::int64_t steps = 8;       ///< of a job; the first one warms up
  int rounds = 3;               ///< jobs of each
};

/// Throws `Options` for names and sizes that cannot be meant.
void check(const BenchPipelineOptions& options);

/// What the jobs of one kind came to.
struct PipelineRow {
  std::string schedule;  ///< "whole": a single stage on a single device
  Timing timing;         ///< of a step
  double images_per_second = 0;
  double times_sequential = 0;
  std::optional<double> allowed{};  ///< the same, if nothing but the times of the stages counted
  double idle_share = 0;            ///< of the devices' time
};

struct PipelineReport {
  std::string work;
  plan::Plan plan;  ///< of 1f1b, whose stages all schedules have
  std::vector<PipelineRow> rows;

  std::string to_table() const;
  /// With what it was measured on, as `BenchReport` has it.
  std::string to_json() const;
};

/// Has `lockstep plan` measure the stages of a model, then trains it in whole jobs of `lockstep
/// train`, in turn: on one device, and over several under each schedule with the stages of that
/// plan. Start-up and the first step are not counted. `program` is `lockstep`.
///
/// Throws `Io` where a job fails, `Bug` where two of them end with different weights.
PipelineReport bench_pipeline(const BenchPipelineOptions& options, const std::string& program,
                              const topology::Environment& environment);

}  // namespace lockstep::cli
