#pragma once

#include <span>

namespace lockstep::optimizer {

/// Copies values past the caches: where much more is written than they hold, lines need not be
/// fetched before they are written. Others see the values as after any store, once they were told
/// of them. The ranges do not overlap.
void stream_copy(std::span<const float> from, std::span<float> to);

}  // namespace lockstep::optimizer
