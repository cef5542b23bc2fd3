#pragma once

#include <vector>

#include "lockstep/nn/model.h"
#include "lockstep/weights/match.h"

// Apart from model_weights.h, which is public.
namespace lockstep::nn {

/// What a file has to hold for a model.
/// Errors: `Unavailable` for types that weight files do not keep.
weights::WantedTensors wanted_by(const std::vector<Slot>& slots);

}  // namespace lockstep::nn
