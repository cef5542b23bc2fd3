#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/events/callback.h"
#include "lockstep/monitor/export/tensorboard_writer.h"

namespace lockstep::monitor {

/// Writes the curves of a training into an event file of TensorBoard.
///
/// | curve | a point for each |
/// |---|---|
/// | `train/loss`, `train/NAME` | iteration |
/// | `epoch/loss`, `epoch/NAME` | epoch |
/// | `test/loss`, `test/NAME` | evaluation |
///
/// The steps of all curves are iterations since the beginning of the training. Notices are texts
/// under `notice`.
class LOCKSTEP_API TensorBoardLog final : public Callback {
 public:
  /// `warn` is called once if the file cannot be written any more. Errors: `Io`.
  TensorBoardLog(const std::string& folder, std::function<void(const std::string&)> warn);

  CalledOn called_on() const noexcept override { return CalledOn::FirstInstance; }
  bool on_notice(const std::string& text) override;
  void on_fit_begin(const FitShape& shape) override { iterations_ = shape.iterations; }
  void on_iteration(int epoch, std::int64_t iteration, const IterationResult& result) override;
  void on_epoch_trained(int epoch, const StepResult& result) override;
  void on_validated(int epoch, const StepResult& result) override;

  const std::string& path() const noexcept { return writer_.path(); }

 private:
  void add(const std::string& group, const StepResult& result);
  void warn_of_failure();

  TensorBoardWriter writer_;
  std::function<void(const std::string&)> warn_;
  std::int64_t iterations_ = 0;  ///< of an epoch
  std::int64_t step_ = 0;        ///< the last one
  bool has_warned_ = false;
};

}  // namespace lockstep::monitor
