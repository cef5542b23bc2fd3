#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/background_writer.h"
#include "lockstep/checkpoint/interval.h"
#include "lockstep/events/event_log.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/state/checkpoint_memory.h"

namespace lockstep::train {

/// The position and the facts of a checkpoint.
struct Moment {
  checkpoint::Position position;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<checkpoint::EpochEntry> history{};
  std::string job{};  ///< the launcher's id of the job
};

/// Takes the checkpoints of a training, on the one instance that writes them: decides when to take
/// a checkpoint, and copies and writes it in the background.
///
/// One thread at a time. If a checkpoint cannot be written, the user gets a warning, and the
/// training continues.
class Checkpointer {
 public:
  struct Listeners {
    std::function<void(const std::string&)> tell;
    const events::EventLog* log = nullptr;
  };
  /// The training continues after `step`. Errors: those of `CheckpointFolder`.
  Checkpointer(const CheckpointOptions& options, std::int64_t step, Listeners listeners);
  ~Checkpointer();

  /// Copies the state into the memory for checkpoints, on the thread of the writer.
  using Copy = std::function<checkpoint::Content(CheckpointMemory&)>;

  /// Whether a checkpoint is due after this step. A checkpoint that is late is due when the
  /// previous one is written.
  bool is_due(std::int64_t step);
  void take_due(const Moment& moment, Copy copy) { take(moment, "interval", std::move(copy)); }
  /// For a request of the user.
  void take_asked(const Moment& moment, Copy copy) { take(moment, "signal", std::move(copy)); }
  /// Receives the metrics of an evaluation at this step.
  void after_evaluation(std::int64_t step, const std::map<std::string, double>& metrics);
  /// Takes a checkpoint at the end of an epoch if one is due, or if the metrics are the best so
  /// far.
  void after_epoch(const Moment& moment, const std::function<Copy()>& copy);
  /// Takes a checkpoint, unless the last one has the same position, and waits until it is on disk.
  /// Returns whether it was written.
  bool take_last(const Moment& moment, const std::string& reason,
                 const std::function<Copy()>& copy);
  /// The program sets other weights, and steps count from 0 again.
  void begin_anew();

  const CheckpointCost& cost() const noexcept { return cost_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_best() const;
  void take(const Moment& moment, const std::string& reason, Copy copy);
  void report();

  CheckpointOptions options_;
  checkpoint::Interval interval_;
  Listeners listeners_;
  CheckpointMemory memory_;
  std::optional<double> best_;  ///< best value of the metric among the existing checkpoints
  std::int64_t evaluated_step_ = -1;
  std::map<std::string, double> metrics_;
  checkpoint::Position last_;  ///< of the last checkpoint, or of the beginning
  Clock::time_point last_time_ = Clock::now();
  std::filesystem::path last_path_;
  CheckpointCost cost_;
  checkpoint::BackgroundWriter writer_;  ///< destroyed first, because it uses the snapshot
};

}  // namespace lockstep::train
