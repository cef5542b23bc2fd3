#pragma once

#include <cstdint>

#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// Adds the block "head": the mean over all pixels, and the linear layer `fc`.
void add_pooled_head(Network& net, std::int64_t in, std::int64_t classes);

}  // namespace lockstep::nn
