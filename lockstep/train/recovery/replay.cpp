#include "lockstep/train/recovery/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {

void Replay::begin(const Progress& before, std::int64_t finished_epochs,
                   std::shared_ptr<LoopPosition> position) {
  before_ = before;
  finished_epochs_ = finished_epochs;
  position_ = std::move(position);
}

/// Whether the position of the loader is known, and no other steps must be passed.
bool Replay::can_jump() const {
  return loop_ == 1 && before_.steps > 0 && walked_ == 0 && walked_before_load_ == 0 &&
         loads_ == before_.loads && before_.loop == 1 && before_.loader != kSeveralLoaders &&
         before_.epoch + 1 == before_.loop_epoch && position_->num_models() == 1;
}

int Replay::begin_loop(int count) {
  ++loop_;
  epoch_ = 1;
  if (!can_jump()) return epoch_;
  const bool is_finished = finished_epochs_ >= before_.loop_epoch;
  walked_ = before_.steps - (is_finished ? 0 : before_.epoch_steps);
  jumped_to_ = before_.epoch + (is_finished ? 1 : 0);
  position_->go_to({.loader = before_.loader, .epoch = *jumped_to_});
  epoch_ = static_cast<int>(*jumped_to_) + 1;
  return std::min(epoch_, count + 1);
}

std::int64_t Replay::walk(std::int64_t steps, std::int64_t loader_epoch) {
  if (const auto expected = std::exchange(jumped_to_, std::nullopt);
      expected && *expected != loader_epoch) {
    throw Error(ErrorKind::Options,
                fmt::format("TrainingModel::step: this run goes on with epoch {}, and the loader "
                            "has begun with epoch {}",
                            *expected + 1, loader_epoch + 1),
                "make loader and model from the same options");
  }
  if (loads_ < before_.loads) {
    if (walked_before_load_ + steps <= before_.steps_before_load) {
      walked_before_load_ += steps;
      return steps;
    }
    // The program does not set the weights again, because it knows that they are set.
    loads_ = before_.loads;
  }
  const auto done = std::clamp<std::int64_t>(before_.steps - walked_, 0, steps);
  walked_ += steps;
  return done;
}

bool Replay::walk_past_load() {
  if (++loads_ <= before_.loads) return false;
  walked_ = before_.steps;  // all later steps are new
  return true;
}

}  // namespace lockstep::train
