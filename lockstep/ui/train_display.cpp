#include "lockstep/ui/train_display.h"

#include <fmt/format.h>

#include <vector>

#include "lockstep/ui/bar_text.h"
#include "lockstep/ui/run_forecast.h"

namespace lockstep::ui {
namespace {

/// Equally wide, so that the numbers behind them stand below each other.
std::string epoch_label(std::int64_t epoch) {
  return fmt::format("[Epoch {:02}]", epoch);
}

/// Epoch 0 is an evaluation without a training.
std::string test_label(std::int64_t epoch) {
  return epoch == 0 ? "[Evaluate]" : fmt::format("[Test  {:02}]", epoch);
}

std::string result_line(const std::string& label, double loss,
                        std::span<const events::NamedValue> metrics) {
  auto line = fmt::format("{} loss: {:.3f}", label, loss);
  for (const auto& [name, value] : metrics) line += fmt::format(", {}: {:.1f}", name, value);
  return line;
}

}  // namespace

TrainDisplay::TrainDisplay(BarOutput out, Writer err)
    : out_(std::move(out)), err_(std::move(err)), forecast_(std::make_unique<RunForecast>()) {}

TrainDisplay::~TrainDisplay() = default;

void TrainDisplay::begin(Phase phase, std::string label, ProgressBar::Options options) {
  end_bar();
  phase_ = phase;
  bar_.emplace(out_, std::move(label), std::move(options));
}

/// Preparing ends with the beginning of something else, and is complete then. What its last step
/// said stays.
void TrainDisplay::end_bar() {
  if (shows(Phase::Prepare)) {
    if (!is_prepared_) bar_->set_postfix({});
    bar_->complete();
  }
  bar_.reset();
}

void TrainDisplay::on(const events::Preparing& event) {
  is_prepared_ = event.done == event.total;
  if (!shows(Phase::Prepare)) {
    begin(Phase::Prepare, "[Prepare]",
          {.total = event.total,
           .initial = event.done,
           .times = BarTimes::Elapsed,
           .postfix = event.what});
    return;
  }
  bar_->set_postfix(event.what);
  bar_->update_now(event.done);
}

void TrainDisplay::on(const events::EpochBegan& event) {
  forecast_->on(event, out_.now());
  begin(Phase::Epoch, epoch_label(event.epoch), {.total = event.iterations});
}

/// The last frame of an epoch's bar stays on the screen, so it does not name an end of the run that
/// is only expected.
std::string TrainDisplay::postfix_of(const events::IterationDone& event) const {
  std::vector<events::NamedValue> values{{"loss", event.loss}};
  values.insert(values.end(), event.metrics.begin(), event.metrics.end());
  auto text = postfix_text(values);
  if (bar_->is_silent() || event.iteration == bar_->total()) return text;
  if (const auto left = forecast_->time_left()) {
    text += ", run ends " + end_text(*left, out_.local_time);
  }
  return text;
}

/// What the line of an epoch adds; empty for the last epoch.
std::string TrainDisplay::expected_end(std::int64_t epoch) const {
  const auto left = forecast_->time_left();
  if (!left || epoch >= forecast_->epochs()) return {};
  return fmt::format(" (the run ends at about {}, in {})", end_text(*left, out_.local_time),
                     duration_text(*left));
}

void TrainDisplay::on(const events::IterationDone& event) {
  if (!shows(Phase::Epoch)) return;
  forecast_->on(event, out_.now());
  bar_->set_postfix(postfix_of(event));
  // Iterations come one by one: what is missing before the first was done by the run that this one
  // resumes.
  if (bar_->done() == 0) bar_->begin_at(event.iteration - 1);
  bar_->update(event.iteration);
}

void TrainDisplay::on(const events::EpochDone& event) {
  end_bar();
  write_line(result_line(epoch_label(event.epoch), event.loss, event.metrics) +
             expected_end(event.epoch));
}

void TrainDisplay::on(const events::EvaluationBegan& event) {
  forecast_->on(event, out_.now());
  begin(Phase::Test, test_label(event.epoch), {.total = event.batches});
}

void TrainDisplay::on(const events::EvaluationAdvanced& event) {
  if (shows(Phase::Test)) bar_->update(event.done);
}

void TrainDisplay::on(const events::EvaluationDone& event) {
  forecast_->on(event, out_.now());
  if (bar_) bar_->vanish();
  end_bar();
  if (event.epoch == 0) return;  // The caller prints more than a line.
  write_line(result_line(test_label(event.epoch), event.loss, event.metrics));
}

void TrainDisplay::on(const events::Notice& event) {
  if (bar_) bar_->hide();
  err_(fmt::format("lockstep: note: {}\n", event.text));
  if (bar_) bar_->show();
}

}  // namespace lockstep::ui
