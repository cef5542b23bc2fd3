#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/train/recovery/loop_position.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// Skips the completed steps of a resumed run, whose program starts again from its beginning.
///
/// If all steps so far belong to the first loop over epochs, to the only model, and to one loader
/// that is read once in an epoch, the loop begins with the unfinished epoch, and the loader seeks
/// to it. All other completed steps are skipped one by one, which is fast. One thread at a time.
class Replay {
 public:
  /// `before` is the progress of the run that this run continues; a new run has no steps.
  void begin(const Progress& before, std::int64_t finished_epochs,
             std::shared_ptr<LoopPosition> position);

  /// Returns the first epoch of a loop over 1, …, count; count + 1 if all are finished.
  int begin_loop(int count);
  void begin_epoch(int epoch) noexcept { epoch_ = epoch; }
  /// The current loop over epochs, and the epoch in it; both count from 1.
  int loop() const noexcept { return loop_; }
  int epoch() const noexcept { return epoch_; }

  /// Passes some steps of an epoch of a loader. Returns how many of them are completed already.
  /// Errors: `Options` if the loader did not seek to the unfinished epoch.
  std::int64_t walk(std::int64_t steps, std::int64_t loader_epoch);

  /// The program sets the weights. Returns false if the run that this run continues has done so.
  bool walk_past_load();
  /// How often the program has set the weights, with the skipped times.
  std::int64_t loads() const noexcept { return loads_; }

  /// Completed steps of the run that this run continues.
  std::int64_t first_step() const noexcept { return before_.steps; }

 private:
  bool can_jump() const;

  Progress before_;
  std::int64_t finished_epochs_ = 0;
  std::shared_ptr<LoopPosition> position_;
  int loop_ = 0;
  int epoch_ = 0;
  std::int64_t loads_ = 0;
  std::int64_t walked_ = 0;                ///< steps since the weights were last set
  std::int64_t walked_before_load_ = 0;    ///< steps before that
  std::optional<std::int64_t> jumped_to_;  ///< epoch of the loader, until the loader is there
};

}  // namespace lockstep::train
