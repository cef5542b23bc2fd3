#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/gpu/update/nccl.h"
#include "lockstep/train/api/options.h"

namespace lockstep::train {

/// The GPUs of all instances, where options want them to add up gradients by themselves; else
/// nothing. `gpu` is this one's. Everybody calls it.
///
/// Errors: `Options` where that is asked for and instances share a GPU; `Unavailable` without NCCL.
std::shared_ptr<const gpu::NcclGroup> join_gpus(comm::Communicator& communicator,
                                                const Options& options, int gpu);

/// What each instance says, by rank.
std::vector<int> leaves_of_all(comm::Communicator& communicator, int leaves);

}  // namespace lockstep::train
