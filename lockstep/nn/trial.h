#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/nn/model.h"

namespace lockstep::nn {

/// Sends pictures of this shape, [samples, channels, height, width], forward and backward through a
/// copy of the model, so that one which cannot be trained is refused before anything is done with
/// it. Returns how many classes it tells apart.
///
/// Errors: `Options`, with what the model gave instead of logits that can be derived; `Unavailable`
/// where there is not enough memory.
std::int64_t try_step(const Model& model, const std::vector<std::int64_t>& pictures);

}  // namespace lockstep::nn
