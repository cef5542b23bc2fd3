#pragma once

#include "lockstep/gpu/stream.h"
#include "lockstep/gpu/update/chunks.h"

namespace lockstep::gpu {

/// Sets `changed` to 1 for each tensor, of those that the chunks are of, in which a bit of `now` is
/// another than in `before`: two flat rows, of which `now` begins with element `first_of_now`.
void mark_changed(const float* before, const float* now, std::int64_t first_of_now, Chunks chunks,
                  float* changed, Stream stream);

}  // namespace lockstep::gpu
