#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/model.h"
#include "lockstep/optimizer/parameter_settings.h"

namespace lockstep::train {

/// A tensor of the model, and where its numbers stand among all of them.
struct PlacedTensor {
  std::size_t slot = 0;  ///< among `slots_of` the model
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  ///< as they lie in memory: dense, in whatever order
  std::int64_t first = 0;             ///< elements, or for integers bytes, that stand before it
  std::int64_t count = 0;
};

struct PlacedParameter : PlacedTensor {
  optimizer::ParameterSettings settings;
  std::size_t first_block = 0;
  std::size_t num_blocks = 0;
};

/// Where every tensor of a model stands in flat memory: a pure function of the model and of how its
/// parameters are treated, so it is the same on every instance.
///
/// What is learned comes first, then floating-point buffers: one number of a leaf for each. Every
/// tensor begins at a cache line, and at a block of the ordered sums, so that nothing that is
/// measured is of two tensors.
struct WeightLayout {
  std::vector<PlacedParameter> parameters;  ///< that are learned
  std::int64_t num_parameters = 0;          ///< elements, with what aligns them
  std::vector<PlacedTensor> buffers;        ///< of f32, behind the parameters
  std::int64_t num_elements = 0;            ///< of both
  std::vector<PlacedTensor> integers;       ///< buffers of whole numbers; `first` counts bytes
  std::int64_t integer_bytes = 0;
  std::vector<PlacedTensor> frozen;  ///< parameters that stay, in memory of their own
  std::int64_t num_frozen = 0;
  std::vector<std::int64_t> blocks;  ///< where they begin
};

/// Errors: `Options` where there is nothing to learn, for parameters and buffers of types that are
/// not trained, and for groups of the optimizer that fit nothing.
WeightLayout lay_out_weights(const std::vector<nn::Slot>& slots, const Optimizer& optimizer);

/// The tensor of one that was placed, over memory at `base`.
at::Tensor view_of(const PlacedTensor& placed, const void* base, at::ScalarType type = at::kFloat);

}  // namespace lockstep::train
