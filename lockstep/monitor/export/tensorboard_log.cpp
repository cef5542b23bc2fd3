#include "lockstep/monitor/export/tensorboard_log.h"

namespace lockstep::monitor {

TensorBoardLog::TensorBoardLog(const std::string& folder, events::TrainSink& next)
    : writer_(folder), next_(next) {}

void TensorBoardLog::on(const events::Preparing& event) {
  next_.on(event);
}

void TensorBoardLog::on(const events::EpochBegan& event) {
  iterations_ = event.iterations;
  next_.on(event);
}

void TensorBoardLog::on(const events::IterationDone& event) {
  step_ = (event.epoch - 1) * iterations_ + event.iteration;
  add("train/", step_, event.loss, event.metrics);
  next_.on(event);
  tell_of_failure();
}

void TensorBoardLog::on(const events::EpochDone& event) {
  step_ = event.epoch * event.iterations;
  add("epoch/", step_, event.loss, event.metrics);
  next_.on(event);
  tell_of_failure();
}

void TensorBoardLog::on(const events::EvaluationBegan& event) {
  next_.on(event);
}

void TensorBoardLog::on(const events::EvaluationAdvanced& event) {
  next_.on(event);
}

void TensorBoardLog::on(const events::EvaluationDone& event) {
  add("test/", step_, event.loss, event.metrics);
  next_.on(event);
  tell_of_failure();
}

void TensorBoardLog::on(const events::Notice& event) {
  writer_.add_text("notice", step_, event.text);
  next_.on(event);
  tell_of_failure();
}

void TensorBoardLog::add(const std::string& group, std::int64_t step, double loss,
                         const std::vector<events::NamedValue>& metrics) {
  writer_.add_scalar(group + "loss", step, loss);
  for (const auto& metric : metrics) writer_.add_scalar(group + metric.name, step, metric.value);
}

void TensorBoardLog::tell_of_failure() {
  if (told_ || !writer_.failure()) return;
  told_ = true;
  next_.on(events::Notice{*writer_.failure() + "; training goes on without it"});
}

}  // namespace lockstep::monitor
