#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/events/event_log.h"
#include "lockstep/events/train_results.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/engine/step_account.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/train/recovery/checkpointer.h"
#include "lockstep/train/recovery/replay.h"
#include "lockstep/train/recovery/resume_compatibility.h"
#include "lockstep/train/recovery/stop_signals.h"
#include "lockstep/train/state/checkpoint_memory.h"

namespace lockstep::train {

/// The training that `Recovery` restores and takes checkpoints of. `Engine` implements it.
class Recoverable {
 public:
  virtual ~Recoverable() = default;

  virtual const Progress& progress() const = 0;
  /// Whether the training continues with the state of an earlier attempt of the job.
  virtual bool is_recovered() const = 0;
  /// Continues with a checkpoint. Every instance calls it; only instance 0 has the checkpoint.
  virtual void restore(const checkpoint::Checkpoint* from) = 0;

  /// Finished epochs, and the fingerprint of the loader (0: none yet), are kept with the state.
  virtual std::int64_t finished_epochs() const = 0;
  virtual void finish_epoch(std::int64_t epoch) = 0;
  virtual std::uint64_t loader_print() const = 0;
  virtual void keep_loader_print(std::uint64_t print) = 0;

  /// Returns a function that copies the state as it is now. Another thread may call it.
  virtual std::function<checkpoint::Content(CheckpointMemory&)> begin_copy() = 0;
  /// Seconds for which steps have waited for copies.
  virtual double waited_for_copies() const = 0;

  /// Requests something of all instances with the next step.
  virtual void request(Request request) = 0;
  /// Whether an instance has requested a checkpoint since the last call. Only for instance 0.
  virtual bool take_checkpoint_request() = 0;

  /// Runs `action`, and reports its error to the other instances.
  virtual void guarded(const std::function<void()>& action) = 0;
};

/// Continues an earlier run, and takes the checkpoints that a later run continues with.
///
/// If the launcher has kept the state of an earlier attempt in memory, the training continues with
/// it. Otherwise, if the options say so or the job was restarted, `Recovery` reads a checkpoint.
/// Then the program runs again from its beginning, and `Replay` skips the completed steps.
///
/// All instances make the same calls; only instance 0 takes checkpoints. One thread at a time.
class Recovery {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// Installs the signal handlers, if the options name a folder for checkpoints.
  explicit Recovery(const Options& options);

  /// Continues with a new `training`, which must outlive all later calls. `loader` is the first
  /// loader of the training, or null if it is not known yet.
  /// Errors: `Options` if a checkpoint does not match the options; `Data` if it is damaged.
  void begin(Recoverable& training, const JobLayout& layout, const Optimizer& optimizer,
             const DataLoader* loader, Tell tell);
  /// Sets the first loader of the training. Errors: as above.
  void take_loader(const DataLoader& loader);

  Replay& replay() noexcept { return replay_; }
  void finish_epoch(int epoch);
  /// The program sets the weights. The checkpoints so far belong to the old weights.
  void before_load() {
    if (is_writer()) checkpointer_->begin_anew();
  }

  /// `step` is the next step of the iteration.
  StepPosition before_step(const DataLoader::Iteration& iteration, std::int64_t step);
  /// Errors: `Stopped`, on every instance, if an instance was asked to stop.
  void after_step(const DataLoader& loader);
  /// Takes a checkpoint if a stop was requested during an evaluation, because an evaluation can
  /// take long.
  void during_evaluation();
  void after_evaluation(double loss, const std::vector<events::NamedValue>& metrics);

  /// Returns, on every instance, whether the checkpoint was written.
  /// Errors: `Options` if the options name no folder.
  bool take_checkpoint(const std::string& reason);

  /// Adds the result of an epoch to all later checkpoints.
  void remember(const checkpoint::EpochEntry& entry);
  /// The results in the checkpoint that the run continues with; empty except on instance 0.
  std::vector<checkpoint::EpochEntry> resumed_history() const {
    return resumed_ ? resumed_->history : std::vector<checkpoint::EpochEntry>();
  }

  /// The checkpoint that the run continues with; empty: memory, or a new run.
  const std::filesystem::path& checkpoint_path() const noexcept { return checkpoint_path_; }
  CheckpointCost checkpoint_cost() const noexcept;

 private:
  void restore();
  std::optional<checkpoint::Checkpoint> find() const;
  void check_kept_loader(const NamedOptions& options);
  void share_path();
  void pass_on_requests();
  void report_resume() const;
  [[noreturn]] void stop();
  Moment moment() const;
  bool is_writer() const noexcept { return checkpointer_ != nullptr; }

  const Options& options_;
  comm::Communicator* communicator_ = nullptr;
  Recoverable* training_ = nullptr;
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
