#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/nn/model.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/state/weight_layout.h"

namespace lockstep::train {

/// Checks that all instances train the same model with the same options and the same optimizer.
/// Returns a fingerprint of the model, the options, the optimizer and the number of replicas. Every
/// instance calls it.
///
/// Errors: `Options`, on every instance, if they differ.
std::uint64_t agree_on_training(comm::Communicator& communicator,
                                const std::vector<nn::Slot>& slots, const Options& options,
                                const Optimizer& optimizer, const WeightLayout& weights,
                                int replicas);

}  // namespace lockstep::train
