#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/report.h"
#include "lockstep/plan/plan.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

struct PipelineOptions {
  std::string model = "resnet50";
  std::string image_size = "32x32";
  std::int64_t batch_size = 8;
  std::int64_t gradient_accumulation = 8;
  int devices_per_replica = 2;  ///< with one thread each
  std::int64_t steps = 8;       ///< of a job; the first is a warm-up
  int rounds = 3;               ///< jobs of each schedule
};

/// Throws `Options` for invalid names and sizes.
void check(const PipelineOptions& options);

/// The results of the jobs with one schedule.
struct PipelineRow {
  std::string schedule;  ///< "whole": a single stage on a single device
  Timing timing;         ///< of a step
  double images_per_second = 0;
  double times_sequential = 0;      ///< speed relative to one stage at a time
  std::optional<double> allowed{};  ///< the same, computed from the times of the stages alone
  double idle_share = 0;            ///< share of the devices' time
};

struct PipelineReport {
  std::string work;
  plan::Plan plan;  ///< of 1f1b; all schedules have its stages
  std::vector<PipelineRow> rows;

  std::string to_table() const;
  /// Begins with `report_head`.
  std::string to_json() const;
};

/// Measures the stages of a model with `lockstep plan`. Then trains the model in jobs of `lockstep
/// train`, which take turns: on one device, and with the stages of that plan under each schedule.
/// The start and the first step are not counted. `program` is `lockstep`.
///
/// Throws `Io` if a job fails, `Bug` if two jobs end with different weights.
PipelineReport measure_pipeline(const PipelineOptions& options, const std::string& program,
                                const topology::Environment& environment);

}  // namespace lockstep::bench
