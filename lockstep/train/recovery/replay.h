#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/train/recovery/loop_position.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// The way that a run which goes on has gone before, and how far its program, which begins at its
/// beginning, has walked it again.
///
/// Where the steps so far were made in the program's first loop over epochs, by its only model and
/// from one loader that it walks over once in an epoch, the loop begins with the epoch that is not
/// finished, and the loader is told. Everything else, and what was done of that epoch, is walked
/// past step by step, which costs nothing. One thread at a time.
class Replay {
 public:
  /// What the run goes on from; a run that begins has made no step.
  void begin(const Progress& before, std::int64_t finished_epochs,
             std::shared_ptr<LoopPosition> position);

  /// The number of the first epoch of a loop over 1, …, count; count + 1 where all are done.
  int begin_loop(int count);
  void begin_epoch(int epoch) noexcept { epoch_ = epoch; }
  /// Which loop over epochs the program is in, from 1, and in which epoch of it.
  int loop() const noexcept { return loop_; }
  int epoch() const noexcept { return epoch_; }

  /// Walks past some steps of a loader's epoch, and says how many of them were made before.
  /// Errors: `Options` where the loader was told to begin elsewhere.
  std::int64_t walk(std::int64_t steps, std::int64_t loader_epoch);

  /// The program sets weights from outside. Returns whether that is still to be done: else it is a
  /// part of what the run goes on from.
  bool walk_past_load();
  /// How often it has, those that it left out this time included.
  std::int64_t loads() const noexcept { return loads_; }

  /// Steps that were made before.
  std::int64_t first_step() const noexcept { return before_.steps; }

 private:
  bool can_jump() const;

  Progress before_;
  std::int64_t finished_epochs_ = 0;
  std::shared_ptr<LoopPosition> position_;
  int loop_ = 0;
  int epoch_ = 0;
  std::int64_t loads_ = 0;
  std::int64_t walked_ = 0;                ///< steps since weights were set last
  std::int64_t walked_before_load_ = 0;    ///< and before that
  std::optional<std::int64_t> jumped_to_;  ///< epoch of the loader, until it is there
};

}  // namespace lockstep::train
