#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "lockstep/nn/model.h"
#include "lockstep/plan/model_profile.h"

namespace lockstep::nn {

/// What the model is called with, for so many samples.
using InputFor = std::function<at::Tensor(std::int64_t samples)>;

struct ProfileRequest {
  std::int64_t samples = 2;      ///< that it is measured with
  int rounds = 0;                ///< that are timed, after one to warm up; 0: memory alone
  double most_seconds = 5;       ///< no further round begins after that
  std::int64_t micro_batch = 0;  ///< samples for which bytes are told; 0: as many
  /// Hears of each block, of each round, that went forward or backward.
  std::function<void(int done, int total)> on_block = [](int, int) {};
};

/// Runs a copy of the model block by block in training mode, each block a graph of its own: all
/// forward, then all backward from a gradient of ones. So the model stays as it is.
///
/// Seconds are for `samples`: the least of all rounds, since whatever disturbs one adds to it.
/// Bytes are of tensors alone. Where a micro-batch has up to twice as many samples they are
/// measured with so many; for more, they are told from both, since a part of them, as gradients of
/// parameters on their way, does not grow with the samples.
///
/// All tensors of the process are counted, so nothing else computes meanwhile.
///
/// Errors: those of `Model::clone`; what libtorch throws as `Options` or `Unavailable`, with the
/// name of the block.
plan::ModelProfile profile_blocks(const Model& model, const InputFor& input,
                                  const ProfileRequest& request);

}  // namespace lockstep::nn
