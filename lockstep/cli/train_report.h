#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/train_arguments.h"
#include "lockstep/monitor/export/html_report.h"
#include "lockstep/monitor/export/run_recorder.h"
#include "lockstep/train/jobs/train_job.h"

namespace lockstep::cli {

/// The report of `lockstep train --report FILE`: collects its content during the run, and writes
/// the page at the end. Only instance 0 has one.
///
/// Its curves survive restarts of the job, because the points lie in the folder of the job. The
/// file is replaced as a whole. One thread at a time.
class TrainReport {
 public:
  /// `identity` is that of this process, with the replicas and devices that it computes. `command`
  /// is the command line to show. `libraries` are the settings of libraries
  /// (`monitor::library_facts`).
  TrainReport(const TrainArguments& arguments, const topology::Identity& identity,
              std::string command, std::vector<monitor::ReportFact> libraries);

  /// The callback that collects the curves during the run.
  monitor::RunRecorder& recorder() noexcept { return recorder_; }

  /// Writes the report of a run that finished. Errors: `Io`.
  void write(const train::TrainSummary& summary);

  /// Writes the report of a run that stopped or failed. Errors: `Io`.
  void write(const Error& reason);

 private:
  /// What is known without the outcome of the run.
  monitor::RunReport begun_report();
  void add_learning_rate(monitor::RunReport& to) const;
  std::vector<monitor::ReportEvent> events() const;
  std::vector<monitor::ReportFact> environment_facts() const;
  std::vector<monitor::ReportFact> options() const;
  void publish(const monitor::RunReport& report) const;

  const TrainArguments& arguments_;
  topology::Identity identity_;
  std::string command_;
  std::vector<monitor::ReportFact> libraries_;
  monitor::RunRecorder recorder_;
};

}  // namespace lockstep::cli
