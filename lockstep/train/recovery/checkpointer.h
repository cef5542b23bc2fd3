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
#include "lockstep/train/state/snapshot.h"

namespace lockstep::train {

/// What is known of the moment at which a checkpoint is taken.
struct Moment {
  checkpoint::Position position;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<checkpoint::EpochEntry> history{};
  std::string job{};  ///< the launcher's name for it
};

/// Takes the checkpoints of a training on the one instance that writes them: decides when, and has
/// them copied and written in the background.
///
/// One thread at a time. A checkpoint that could not be written is told of, and ends nothing.
class Checkpointer {
 public:
  struct Listeners {
    std::function<void(const std::string&)> tell;
    const events::EventLog* log = nullptr;
  };
  /// For a training that goes on after this step. Errors: those of `CheckpointFolder`.
  Checkpointer(const CheckpointOptions& options, std::int64_t step, Listeners listeners);
  ~Checkpointer();

  /// Copies the state into the snapshot, on the writer's thread.
  using Copy = std::function<checkpoint::Content(Snapshot&)>;

  /// Whether it is time for one after this step. One that is late is due as soon as the one before
  /// is written.
  bool is_due(std::int64_t step);
  void take_due(const Moment& moment, Copy copy) { take(moment, "interval", std::move(copy)); }
  /// Somebody wants one now.
  void take_asked(const Moment& moment, Copy copy) { take(moment, "signal", std::move(copy)); }
  /// An evaluation at this step came to that.
  void after_evaluation(std::int64_t step, const std::map<std::string, double>& metrics);
  /// An epoch is over, with all that belongs to it.
  void after_epoch(const Moment& moment, const std::function<Copy()>& copy);
  /// Takes one, unless the last was of this very moment, and waits until it is on disk. Returns
  /// whether it is.
  bool take_last(const Moment& moment, const std::string& reason,
                 const std::function<Copy()>& copy);
  /// Other weights come, and steps are counted from 0 again.
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
  Snapshot snapshot_;
  std::optional<double> best_;  ///< value of the metric among the checkpoints that are there
  std::int64_t evaluated_step_ = -1;
  std::map<std::string, double> metrics_;
  checkpoint::Position last_;  ///< of the last one, or where training began
  Clock::time_point last_time_ = Clock::now();
  std::filesystem::path last_path_;
  CheckpointCost cost_;
  checkpoint::BackgroundWriter writer_;  ///< goes first: it uses the snapshot
};

}  // namespace lockstep::train
