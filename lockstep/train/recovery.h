#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/events/event_log.h"
#include "lockstep/events/train_events.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/checkpoint_cost.h"
#include "lockstep/train/checkpointer.h"
#include "lockstep/train/data_loader.h"
#include "lockstep/train/engine.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep::train {

/// How a training goes on where an earlier run was, and how it leaves what a later one needs.
///
/// An engine that was made finds the state of an earlier attempt in memory that the launcher has
/// kept; else this reads it from a checkpoint, where options say so or the job was restarted. Then
/// the program walks the way again that the earlier run has gone: `epochs` and the loader begin at
/// the right place where that is the program's first and only loop and loader; else each step that
/// was made before is walked past.
///
/// Everybody calls members alike, except that checkpoints are the business of instance 0. One
/// thread at a time.
class Recovery {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// Errors: `Options` where checkpoints and options do not fit; `Data` where they are damaged.
  void begin(Engine& engine, const Options& options, const Optimizer& optimizer, Tell tell);

  /// What could not be compared before there was a loader.
  void check_loader(Engine& engine, const DataLoader& loader);

  /// The number of the first epoch of a loop over 1, …, count; count + 1 where all are done.
  int begin_loop(const Engine& engine, int count);
  void begin_epoch(int epoch) noexcept { epoch_ = epoch; }
  void finish_epoch(Engine& engine, int epoch);

  /// Walks past so many steps, and says how many of them were made before.
  std::int64_t walk(const Engine& engine, std::int64_t steps);
  /// Steps are counted from here: from those that were made before, or of a way not gone yet.
  void before_load(const Engine& engine) { walked_ = engine.awaits_load() ? 0 : first_step_; }

  void before_step(Engine& engine);
  StepPlace place_of(const DataLoader::Iteration& iteration, bool begins) const;
  /// Errors: `Stopped`, on every instance, where one was asked to stop.
  void after_step(Engine& engine);
  /// Evaluations may take long: whoever asks to stop meanwhile has a checkpoint at once.
  void during_evaluation(const Engine& engine);
  void after_evaluation(const Engine& engine, double loss,
                        const std::vector<events::NamedValue>& metrics);

  /// Errors: `Options` where no folder was named; `Io`.
  void take_checkpoint(Engine& engine, const std::string& reason);

  std::int64_t first_step() const noexcept { return first_step_; }
  const std::filesystem::path& checkpoint_path() const noexcept { return checkpoint_path_; }
  CheckpointCost checkpoint_cost() const noexcept;

 private:
  void restore(Engine& engine, const Options& options);
  std::optional<checkpoint::Checkpoint> find(const Options& options) const;
  void tell_of_resume(const Engine& engine) const;
  [[noreturn]] void stop(Engine& engine);
  Moment moment(const Engine& engine) const;
  bool is_writer() const noexcept { return checkpointer_ != nullptr; }

  Tell tell_;
  events::EventLog log_;
  std::vector<std::pair<std::string, std::string>> options_;
  std::optional<checkpoint::Manifest> resumed_;  ///< on instance 0
  std::filesystem::path checkpoint_path_;
  std::int64_t first_step_ = 0;  ///< steps that were made before
  std::int64_t walked_ = 0;      ///< steps that the program has walked past
  std::int64_t steps_per_iteration_ = 1;
  int loop_ = 0;
  int epoch_ = 0;
  bool has_answered_stop_ = false;
  std::shared_ptr<LoopPosition> position_;
  comm::Communicator* communicator_ = nullptr;
  std::shared_ptr<StopSignals> signals_;
  std::unique_ptr<Checkpointer> checkpointer_;
};

}  // namespace lockstep::train
