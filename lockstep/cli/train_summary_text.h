#pragma once

#include <string>
#include <vector>

#include "lockstep/monitor/export/html_report.h"
#include "lockstep/train/jobs/train_job.h"

namespace lockstep::cli {

/// The results of a training run, as `to_text` and the report show them; without the digest.
std::vector<monitor::ReportFact> facts_of(const train::TrainSummary& summary);

/// Describes the bottleneck of the run; empty if no time was measured.
std::string bottleneck_of(const train::TrainSummary& summary);

/// The lines that end the output of `lockstep train`. The last one is the digest.
std::string to_text(const train::TrainSummary& summary);

/// The whole summary, for `--summary`. Missing values, and values that are not numbers, are null.
std::string to_json(const train::TrainSummary& summary);

}  // namespace lockstep::cli
