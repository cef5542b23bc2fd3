#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/events/event_log.h"
#include "lockstep/events/train_events.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/checkpoint_cost.h"
#include "lockstep/train/checkpointer.h"
#include "lockstep/train/data_loader.h"
#include "lockstep/train/engine.h"
#include "lockstep/train/matching_options.h"
#include "lockstep/train/replay.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep::train {

/// How a training goes on where an earlier run was, and how it leaves what a later one needs.
///
/// An engine that was made finds the state of an earlier attempt in memory that the launcher has
/// kept; else this reads it from a checkpoint, where options say so or the job was restarted. Then
/// the program walks its way again (`Replay`).
///
/// Everybody calls members alike, except that checkpoints are the business of instance 0. One
/// thread at a time.
class Recovery {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// Signals are heeded from here on, where there will be checkpoints.
  explicit Recovery(const Options& options);

  /// Goes on, with an engine that was just made. `loader` is the one that training will begin with,
  /// where it is known already.
  /// Errors: `Options` where checkpoints and options do not fit; `Data` where they are damaged.
  void begin(Engine& engine, const Optimizer& optimizer, const DataLoader* loader, Tell tell);
  /// The loader that training begins with. Errors: as above.
  void take_loader(Engine& engine, const DataLoader& loader);

  Replay& replay() noexcept { return replay_; }
  void finish_epoch(Engine& engine, int epoch);
  void before_load();

  /// `step` is the one of the iteration that is about to be made.
  StepPlace before_step(Engine& engine, const DataLoader::Iteration& iteration, std::int64_t step);
  /// Errors: `Stopped`, on every instance, where one was asked to stop.
  void after_step(Engine& engine, const DataLoader& loader);
  /// Evaluations may take long: whoever asks to stop meanwhile has a checkpoint at once.
  void during_evaluation(Engine& engine);
  void after_evaluation(const Engine& engine, double loss,
                        const std::vector<events::NamedValue>& metrics);

  /// Returns, on every instance, whether it could be written.
  /// Errors: `Options` where no folder was named.
  bool take_checkpoint(Engine& engine, const std::string& reason);

  /// What finished epochs came to goes with the checkpoints that are taken from here on.
  void remember(const checkpoint::EpochEntry& entry);
  /// What the checkpoint has of that from which the run goes on; known to instance 0.
  std::vector<checkpoint::EpochEntry> resumed_history() const;

  /// Where the run goes on from; empty: from memory, or not at all.
  const std::filesystem::path& checkpoint_path() const noexcept { return checkpoint_path_; }
  CheckpointCost checkpoint_cost(const Engine& engine) const noexcept;

 private:
  void restore(Engine& engine);
  std::optional<checkpoint::Checkpoint> find() const;
  void share_path();
  void pass_on_requests(Engine& engine);
  void tell_of_resume(const Engine& engine) const;
  [[noreturn]] void stop(Engine& engine);
  Moment moment(const Engine& engine) const;
  bool is_writer() const noexcept { return checkpointer_ != nullptr; }

  const Options& options_;
  comm::Communicator* communicator_ = nullptr;
  Tell tell_;
  events::EventLog log_;
  NamedOptions to_match_;
  std::optional<checkpoint::Manifest> resumed_;  ///< on instance 0
  std::filesystem::path checkpoint_path_;
  std::vector<checkpoint::EpochEntry> history_;
  bool has_loader_ = false;
  bool has_answered_stop_ = false;
  Replay replay_;
  std::unique_ptr<StopSignals> signals_;
  std::unique_ptr<Checkpointer> checkpointer_;
};

}  // namespace lockstep::train
