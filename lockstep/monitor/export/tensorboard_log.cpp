#include "lockstep/monitor/export/tensorboard_log.h"

#include <utility>

namespace lockstep::monitor {

TensorBoardLog::TensorBoardLog(const std::string& folder,
                               std::function<void(const std::string&)> warn)
    : writer_(folder), warn_(std::move(warn)) {}

void TensorBoardLog::on_iteration(int epoch, std::int64_t iteration,
                                  const IterationResult& result) {
  step_ = (epoch - 1) * iterations_ + iteration;
  add("train/", result);
}

void TensorBoardLog::on_epoch_trained(int epoch, const StepResult& result) {
  step_ = epoch * iterations_;
  add("epoch/", result);
}

void TensorBoardLog::on_validated(int /*epoch*/, const StepResult& result) {
  add("test/", result);
}

bool TensorBoardLog::on_notice(const std::string& text) {
  writer_.add_text("notice", step_, text);
  warn_of_failure();
  return false;
}

void TensorBoardLog::add(const std::string& group, const StepResult& result) {
  writer_.add_scalar(group + "loss", step_, result.loss);
  for (const auto& [name, value] : result.metrics) writer_.add_scalar(group + name, step_, value);
  warn_of_failure();
}

void TensorBoardLog::warn_of_failure() {
  if (has_warned_ || !writer_.failure()) return;
  has_warned_ = true;
  warn_(*writer_.failure() + "; the training continues without it");
}

}  // namespace lockstep::monitor
