#pragma once

#include <span>

#include "lockstep/base/export.h"

namespace lockstep::optimizer {

/// Copies values past the caches: where much more is written than they hold, lines need not be
/// fetched before they are written. Others see the values as after any store, once they were told
/// of them. The ranges do not overlap.
LOCKSTEP_PRIVATE_API void stream_copy(std::span<const float> from, std::span<float> to);

/// The same for one of many pieces: others see them after `end_pieces`, which waits until all of
/// this thread's are in memory. To wait after each of them takes longer than to write it.
LOCKSTEP_PRIVATE_API void stream_piece(std::span<const float> from, std::span<float> to);
LOCKSTEP_PRIVATE_API void end_pieces() noexcept;

}  // namespace lockstep::optimizer
