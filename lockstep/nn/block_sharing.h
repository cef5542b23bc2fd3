#pragma once

#include <cstddef>

#include "lockstep/nn/model.h"
#include "lockstep/plan/model_profile.h"

namespace lockstep::nn {

/// All that is known of a model's blocks before any runs: names, the bytes of what they own, and
/// which of them share a parameter or a buffer, so that no stage may begin between them. What is
/// shared counts for the first of them; what is frozen counts for none; what belongs to no block
/// counts for the last.
plan::ModelProfile list_blocks(const Model& model);

/// For a model that is to be split.
///
/// Errors: `Options` where a parameter or buffer belongs to no block, so that no stage would have
/// it.
void check_owners(const Model& model);

/// For a stage of the blocks [first, end), which gave `output`, not yet gone backward.
///
/// Errors: `Options` where it computes with a parameter that belongs to none of its blocks: another
/// stage learns it.
void check_uses(const Model& model, std::size_t first, std::size_t end, const at::Tensor& output);

}  // namespace lockstep::nn
