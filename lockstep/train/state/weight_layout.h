#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/model.h"
#include "lockstep/optimizer/parameter_settings.h"

namespace lockstep::train {

/// A tensor of the model, and its place in flat memory.
struct PlacedTensor {
  std::size_t slot = 0;  ///< among `slots_of` the model
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  ///< dense, in the order of the memory format
  std::int64_t first = 0;             ///< elements before it; for integers: bytes
  std::int64_t count = 0;
};

struct PlacedParameter : PlacedTensor {
  optimizer::ParameterSettings settings;
  std::size_t first_block = 0;
  std::size_t num_blocks = 0;
};

/// The place of every tensor of a model in flat memory: a pure function of the model and of the
/// optimizer's groups, so it is the same on every instance.
///
/// The trained parameters come first, then the floating-point buffers. A leaf has one number for
/// each of these elements. Every tensor begins at a cache line and at a new block of the ordered
/// sum, so that no block has elements of two tensors.
struct WeightLayout {
  std::vector<PlacedParameter> parameters;  ///< trained parameters
  std::int64_t num_parameters = 0;          ///< their elements, with padding
  std::vector<PlacedTensor> buffers;        ///< f32 buffers, behind the parameters
  std::int64_t num_elements = 0;            ///< of parameters and buffers
  std::vector<PlacedTensor> integers;       ///< integer buffers; `first` counts bytes
  std::int64_t integer_bytes = 0;
  std::vector<PlacedTensor> frozen;  ///< parameters that are not trained, in separate memory
  std::int64_t num_frozen = 0;
  std::vector<std::int64_t> blocks;  ///< first element of each block
};

/// Errors: `Options` if there is no parameter to train, for parameters and buffers of unsupported
/// types, and for a group of the optimizer that matches no parameter.
WeightLayout lay_out_weights(const std::vector<nn::Slot>& slots, const Optimizer& optimizer);

/// The tensor of `placed`, as a view of the memory at `base`.
at::Tensor view_of(const PlacedTensor& placed, const void* base, at::ScalarType type = at::kFloat);

}  // namespace lockstep::train
