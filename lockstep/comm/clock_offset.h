#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Measures how the clocks of two instances differ, with messages between them.
///
/// Returns on rank 0 the time to add to the clock of rank `other` to get the clock of rank 0, and 0
/// on the other ranks. All ranks call it. `now` reads the clock of the calling instance.
///
/// A busy machine makes some messages late, so the fastest of 16 messages in each direction counts.
/// The error is half of the difference between the fastest times of the two directions.
std::int64_t clock_offset(Communicator& communicator, int other,
                          const std::function<std::int64_t()>& now);

}  // namespace lockstep::comm
