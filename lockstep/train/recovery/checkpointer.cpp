#include "lockstep/train/recovery/checkpointer.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/checkpoint/pruning.h"

namespace lockstep::train {

Checkpointer::Checkpointer(const CheckpointOptions& options, std::int64_t step, Listeners listeners)
    : options_(options),
      interval_(checkpoint::parse_interval("checkpoints", options.every)),
      listeners_(std::move(listeners)),
      last_{.step = step},
      writer_(checkpoint::CheckpointFolder(
          options.folder, {.last = options.keep_last, .best_metric = options.best_metric})) {
  if (!options.best_metric.empty())
    best_ = checkpoint::best_metric(options.folder, options.best_metric);
}

Checkpointer::~Checkpointer() {
  writer_.wait();
  report();
}

bool Checkpointer::is_due(std::int64_t step) {
  using Unit = checkpoint::Interval::Unit;
  report();
  if (writer_.is_busy()) return false;
  if (interval_.unit == Unit::Steps) {
    const auto count = static_cast<std::int64_t>(interval_.count);
    return step / count > last_.step / count;
  }
  return interval_.unit == Unit::Seconds &&
         Clock::now() - last_time_ >= std::chrono::duration<double>(interval_.count);
}

void Checkpointer::after_evaluation(std::int64_t step,
                                    const std::map<std::string, double>& metrics) {
  evaluated_step_ = step;
  metrics_ = metrics;
}

bool Checkpointer::is_best() const {
  const auto found = metrics_.find(options_.best_metric);
  return found != metrics_.end() && std::isfinite(found->second) &&
         (!best_ || found->second > *best_);
}

void Checkpointer::after_epoch(const Moment& moment, const std::function<Copy()>& copy) {
  report();
  const bool is_evaluated = evaluated_step_ == moment.position.step;
  const bool is_time =
      interval_.unit == checkpoint::Interval::Unit::Epochs &&
      moment.position.finished_epochs % static_cast<std::int64_t>(interval_.count) == 0;
  if (is_evaluated && is_best()) return take(moment, "best", copy());
  if (is_time) take(moment, "interval", copy());
}

bool Checkpointer::take_last(const Moment& moment, const std::string& reason,
                             const std::function<Copy()>& copy) {
  writer_.wait();
  report();
  if (last_ != moment.position || last_path_.empty()) {
    take(moment, reason, copy());
    writer_.wait();
    report();
  }
  return !last_path_.empty();
}

void Checkpointer::begin_anew() {
  writer_.wait();  // it reads the old weights
  last_ = {};
  evaluated_step_ = -1;
}

void Checkpointer::take(const Moment& moment, const std::string& reason, Copy copy) {
  const auto begin = Clock::now();
  checkpoint::Manifest manifest{.position = moment.position,
                                .options = moment.options,
                                .history = moment.history,
                                .reason = reason,
                                .job = moment.job};
  if (evaluated_step_ == moment.position.step) {
    manifest.metrics = metrics_;
    if (is_best()) best_ = metrics_.at(options_.best_metric);
  }
  last_ = moment.position;
  last_time_ = begin;
  last_path_.clear();
  // Waits for the previous checkpoint, which uses the same snapshot.
  writer_.begin([this, copy = std::move(copy), manifest = std::move(manifest)] {
    auto content = copy(memory_);
    content.manifest = manifest;
    return content;
  });
  ++cost_.taken;
  cost_.blocked_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Reports the written checkpoints to the log, and errors to the user.
void Checkpointer::report() {
  for (const auto& written : writer_.take_results()) {
    cost_.writer_seconds += written.cpu_seconds;
    events::LogEntry entry{.event = "checkpoint", .instance = 0, .step = written.step};
    entry.more.emplace_back("reason", written.reason);
    entry.more.emplace_back("seconds", written.seconds);
    if (written.error.empty()) {
      last_path_ = written.path;
      entry.more.emplace_back("path", written.path.string());
    } else {
      entry.more.emplace_back("error", written.error);
      listeners_.tell(
          fmt::format("the checkpoint of step {} could not be written: {}; the ones before it stay",
                      written.step, written.error));
    }
    if (listeners_.log != nullptr) listeners_.log->write(entry);
  }
}

}  // namespace lockstep::train
