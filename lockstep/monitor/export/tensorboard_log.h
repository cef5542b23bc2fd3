#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/events/train_events.h"
#include "lockstep/monitor/export/tensorboard_writer.h"

namespace lockstep::monitor {

/// Writes what happens to a training into an event file of TensorBoard, and passes all of it on to
/// another sink, which also hears, once, when the file cannot be written any more.
///
/// | curve | a point for each |
/// |---|---|
/// | `train/loss`, `train/NAME` | iteration |
/// | `epoch/loss`, `epoch/NAME` | epoch |
/// | `test/loss`, `test/NAME` | evaluation |
///
/// Steps are iterations since the beginning of the training, so all curves have one axis. Notices
/// are texts under `notice`.
class LOCKSTEP_API TensorBoardLog final : public events::TrainSink {
 public:
  /// Errors: `Io`.
  TensorBoardLog(const std::string& folder, events::TrainSink& next);

  void on(const events::Preparing& event) override;
  void on(const events::EpochBegan& event) override;
  void on(const events::IterationDone& event) override;
  void on(const events::EpochDone& event) override;
  void on(const events::EvaluationBegan& event) override;
  void on(const events::EvaluationAdvanced& event) override;
  void on(const events::EvaluationDone& event) override;
  void on(const events::Notice& event) override;

  const std::string& path() const noexcept { return writer_.path(); }

 private:
  void add(const std::string& group, std::int64_t step, double loss,
           const std::vector<events::NamedValue>& metrics);
  void tell_of_failure();

  TensorBoardWriter writer_;
  events::TrainSink& next_;
  std::int64_t iterations_ = 0;  ///< of an epoch
  std::int64_t step_ = 0;        ///< the last one
  bool told_ = false;
};

}  // namespace lockstep::monitor
