#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/base/file.h"
#include "lockstep/events/callback.h"
#include "lockstep/monitor/export/html_report.h"

namespace lockstep::monitor {

/// Collects the curves and the notices of a training run for its report.
///
/// A point of a training curve is the mean of some iterations. In long runs later points are means
/// of more iterations, so that the number of points stays in the thousands.
///
/// If a file is named, the points are also appended to it, a line of text for each. A recorder that
/// finds such a file continues it: it reads the points of earlier attempts of the job. If an
/// attempt repeats steps, the new points replace the old ones. A file that cannot be used is
/// ignored.
///
/// One thread at a time.
class LOCKSTEP_PRIVATE_API RunRecorder final : public Callback {
 public:
  struct Options {
    std::int64_t steps_per_iteration = 1;    ///< optimizer steps
    std::int64_t samples_per_iteration = 0;  ///< of all replicas; 0: no throughput is recorded
    std::string evaluation = "test";         ///< the name of the curves of evaluations
    std::string file{};                      ///< of the points; empty: none
    std::function<double()> now{};           ///< seconds of a steady clock; empty: the system's
  };

  explicit RunRecorder(Options options);

  CalledOn called_on() const noexcept override { return CalledOn::FirstInstance; }
  bool on_notice(const std::string& text) override;
  void on_fit_begin(const FitShape& shape) override { iterations_ = shape.iterations; }
  void on_epoch_begin(int epoch, std::int64_t iterations) override;
  void on_iteration(int epoch, std::int64_t iteration, const IterationResult& result) override;
  void on_epoch_trained(int epoch, const StepResult& result) override;
  void on_validated(int epoch, const StepResult& result) override;

  /// A chart of the loss, one of each metric, and one of the throughput, by optimizer step. They
  /// include all iterations so far.
  std::vector<ReportChart> charts();

  /// The first and the last optimizer step that a training curve has; 0: none.
  std::int64_t first_step() const;
  std::int64_t last_step() const noexcept { return step_; }
  int epoch() const noexcept { return epoch_; }
  std::int64_t iterations_per_epoch() const noexcept { return iterations_; }

  /// All notices so far, as events with the name "note".
  const std::vector<ReportEvent>& notices() const noexcept { return notices_; }

 private:
  /// Iterations that are not part of a point yet.
  struct Pending {
    std::int64_t count = 0;
    double seconds = 0;
    std::map<std::string, double> sums{};  ///< by curve
  };

  std::int64_t read_file_of_earlier_attempts();
  void add(const std::string& curve, double step, double value);
  /// Adds points of the last step, by curve, and appends them to the file.
  void record(const std::map<std::string, double>& values);
  void append_to_file(const std::string& lines) noexcept;
  void flush();
  ReportChart chart_of(const std::string& metric) const;

  Options options_;
  UniqueFd file_;
  std::map<std::string, std::vector<ReportPoint>> curves_;  ///< "train/loss", "test/acc", …
  std::vector<std::string> metrics_;                        ///< in the order of their appearance
  std::vector<ReportEvent> notices_;
  Pending pending_;
  std::int64_t iterations_per_point_ = 1;
  std::int64_t num_points_ = 0;
  std::int64_t iterations_ = 0;  ///< of an epoch
  int epoch_ = 0;
  std::int64_t step_ = 0;         ///< the last one
  std::optional<double> before_;  ///< when the last iteration ended, or else the epoch began
};

}  // namespace lockstep::monitor
