#include "lockstep/ui/train_display.h"

#include <fmt/format.h>

#include <vector>

#include "lockstep/ui/bar_text.h"
#include "lockstep/ui/run_forecast.h"

namespace lockstep::ui {
namespace {

/// Both labels have the same width, so that the numbers after them are aligned.
std::string epoch_label(int epoch) {
  return fmt::format("[Epoch {:02}]", epoch);
}

/// Epoch 0 is an evaluation without a training.
std::string test_label(int epoch) {
  return epoch == 0 ? "[Evaluate]" : fmt::format("[Test  {:02}]", epoch);
}

std::string result_line(const std::string& label, const StepResult& result) {
  auto line = fmt::format("{} loss: {:.3f}", label, result.loss);
  for (const auto& [name, value] : result.metrics) line += fmt::format(", {}: {:.1f}", name, value);
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

/// The preparation is complete when another phase begins. The text of its last step stays.
void TrainDisplay::end_bar() {
  if (shows(Phase::Prepare)) {
    if (!is_prepared_) bar_->set_postfix({});
    bar_->complete();
  }
  bar_.reset();
}

void TrainDisplay::on_preparing(const events::Preparing& step) {
  is_prepared_ = step.done == step.total;
  if (!shows(Phase::Prepare)) {
    begin(Phase::Prepare, "[Prepare]",
          {.total = step.total,
           .initial = step.done,
           .times = BarTimes::Elapsed,
           .postfix = step.what});
    return;
  }
  bar_->set_postfix(step.what);
  bar_->update_now(step.done);
}

void TrainDisplay::on_epoch_begin(int epoch, std::int64_t iterations) {
  forecast_->begin_epoch({.epoch = epoch,
                          .iterations = iterations,
                          .epochs = shape_.epochs,
                          .evaluations = shape_.validations_from(epoch)},
                         out_.now());
  begin(Phase::Epoch, epoch_label(epoch), {.total = iterations});
}

/// The last frame of an epoch's bar stays on the screen, so it does not name an end of the run that
/// is only expected.
std::string TrainDisplay::postfix_of(std::int64_t iteration, const StepResult& result) const {
  std::vector<events::NamedValue> values{{"loss", result.loss}};
  values.insert(values.end(), result.metrics.begin(), result.metrics.end());
  auto text = postfix_text(values);
  if (bar_->is_silent() || iteration == bar_->total()) return text;
  if (const auto left = forecast_->time_left()) {
    text += ", run ends " + end_text(*left, out_.local_time);
  }
  return text;
}

/// What the line of an epoch adds; empty for the last epoch.
std::string TrainDisplay::expected_end(int epoch) const {
  const auto left = forecast_->time_left();
  if (!left || epoch >= forecast_->epochs()) return {};
  return fmt::format(" (the run ends at about {}, in {})", end_text(*left, out_.local_time),
                     duration_text(*left));
}

void TrainDisplay::on_iteration(int /*epoch*/, std::int64_t iteration,
                                const IterationResult& result) {
  if (!shows(Phase::Epoch)) return;
  forecast_->end_iteration(iteration, out_.now());
  bar_->set_postfix(postfix_of(iteration, result));
  // Iterations come one by one. The run that this run resumes has made those before the first one.
  if (bar_->done() == 0) bar_->begin_at(iteration - 1);
  bar_->update(iteration);
}

void TrainDisplay::on_epoch_trained(int epoch, const StepResult& result) {
  end_bar();
  write_line(result_line(epoch_label(epoch), result) + expected_end(epoch));
}

void TrainDisplay::on_validation_begin(int epoch, std::int64_t local_batches) {
  forecast_->begin_evaluation(out_.now());
  begin(Phase::Test, test_label(epoch), {.total = local_batches});
}

void TrainDisplay::on_validation_batch(std::int64_t done) {
  if (shows(Phase::Test)) bar_->update(done);
}

void TrainDisplay::on_validated(int epoch, const StepResult& result) {
  forecast_->end_evaluation(out_.now());
  if (bar_) bar_->vanish();
  end_bar();
  if (epoch == 0) return;  // The caller prints more than a line.
  write_line(result_line(test_label(epoch), result));
}

bool TrainDisplay::on_notice(const std::string& text) {
  if (bar_) bar_->hide();
  err_(fmt::format("lockstep: note: {}\n", text));
  if (bar_) bar_->show();
  return true;
}

}  // namespace lockstep::ui
