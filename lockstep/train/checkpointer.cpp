#include "lockstep/train/checkpointer.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::train {
namespace {

/// The best value of a metric among the checkpoints of a folder.
std::optional<double> best_in(const std::filesystem::path& folder, const std::string& metric) {
  std::optional<double> best;
  for (const auto& path : checkpoint::list_checkpoints(folder)) {
    try {
      const auto file = (path / checkpoint::kManifestName).string();
      const auto manifest = checkpoint::parse_manifest(read_file(file), file);
      const auto found = manifest.metrics.find(metric);
      if (found != manifest.metrics.end())
        best = std::max(best.value_or(found->second), found->second);
    } catch (const Error&) {
      // A damaged one is not the best.
    }
  }
  return best;
}

}  // namespace

std::byte* Snapshot::make_room(std::size_t bytes) {
  if (bytes > bytes_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

Checkpointer::Checkpointer(const CheckpointOptions& options, std::int64_t step, Listeners listeners)
    : options_(options),
      interval_(checkpoint::parse_interval("checkpoints", options.every)),
      listeners_(std::move(listeners)),
      last_{.step = step},
      writer_(checkpoint::CheckpointFolder(
          options.folder, {.last = options.keep_last, .best_metric = options.best_metric})) {
  if (!options.best_metric.empty()) best_ = best_in(options.folder, options.best_metric);
}

Checkpointer::~Checkpointer() {
  writer_.wait();
  report();
}

bool Checkpointer::is_time(const checkpoint::Position& position) const {
  using Unit = checkpoint::Interval::Unit;
  if (interval_.unit == Unit::Steps) {
    const auto count = static_cast<std::int64_t>(interval_.count);
    return position.step / count > last_.step / count;
  }
  return interval_.unit == Unit::Seconds &&
         Clock::now() - last_time_ >= std::chrono::duration<double>(interval_.count);
}

void Checkpointer::after_step(const Moment& moment, bool is_asked, const Copy& copy) {
  report();
  // One that is late is taken as soon as the one before is written.
  if (!is_asked && (writer_.is_busy() || !is_time(moment.position))) return;
  take(moment, is_asked ? "signal" : "interval", copy);
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

void Checkpointer::after_epoch(const Moment& moment, const Copy& copy) {
  report();
  const bool is_evaluated = evaluated_step_ == moment.position.step;
  const bool is_time =
      interval_.unit == checkpoint::Interval::Unit::Epochs &&
      moment.position.finished_epochs % static_cast<std::int64_t>(interval_.count) == 0;
  if (is_evaluated && is_best()) return take(moment, "best", copy);
  if (is_time) take(moment, "interval", copy);
}

std::filesystem::path Checkpointer::take_last(const Moment& moment, const std::string& reason,
                                              const Copy& copy) {
  writer_.wait();
  report();
  if (last_ != moment.position || last_path_.empty()) {
    take(moment, reason, copy);
    writer_.wait();
    report();
  }
  if (last_path_.empty()) throw Error(ErrorKind::Io, "checkpoint: " + last_error_);
  return last_path_;
}

void Checkpointer::take(const Moment& moment, const std::string& reason, const Copy& copy) {
  const auto begin = Clock::now();
  writer_.wait();  // it reads the snapshot
  auto make = copy(snapshot_);
  checkpoint::Manifest manifest{
      .position = moment.position, .options = moment.options, .reason = reason};
  if (evaluated_step_ == moment.position.step) {
    manifest.metrics = metrics_;
    if (is_best()) best_ = metrics_.at(options_.best_metric);
  }
  last_ = moment.position;
  last_time_ = begin;
  last_path_.clear();
  writer_.begin([make = std::move(make), manifest = std::move(manifest)] {
    auto content = make();
    content.manifest = manifest;
    return content;
  });
  ++cost_.taken;
  cost_.blocked_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What became of those that were written since, in the words of the log and for the user.
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
      last_error_ = written.error;
      entry.more.emplace_back("error", written.error);
      listeners_.tell(
          fmt::format("the checkpoint of step {} could not be written: {}; the ones before it stay",
                      written.step, written.error));
    }
    if (listeners_.log != nullptr) listeners_.log->write(entry);
  }
}

}  // namespace lockstep::train
