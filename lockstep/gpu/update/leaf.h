#pragma once

#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/gpu/stream.h"
#include "lockstep/gpu/update/chunks.h"
#include "lockstep/gpu/update/step_control.h"

namespace lockstep::gpu {

// Gradients become a leaf of the tree, and leaves a sum: flat rows of f32 in a GPU's memory. The
// bits are those of `optimizer::round_leaf` and of the CPU's tree (`comm/ordered_reduction.h`), but
// for what a NaN carries beside being none.

/// What a replica has for one tensor: the gradient of a parameter, or the buffer itself.
struct LeafTensor {
  const void* data = nullptr;     ///< in the order of the flat row; none: zeros
  std::int64_t first = 0;         ///< where it stands in the flat row
  DataType type = DataType::F32;  ///< F32, F16 or BF16
  bool is_buffer = false;         ///< taken as it is: not rounded, not divided
};

/// How a leaf is combined with what stands at its place.
enum class Combine : std::uint8_t {
  Write,  ///< replaces it
  Add,    ///< is added to it, as its right neighbour
};

struct GatherCall {
  const LeafTensor* tensors = nullptr;  ///< on the GPU
  Chunks chunks{};                      ///< of these tensors
  DataType leaf_type = DataType::F32;   ///< what gradients are rounded to: F32, F16 or BF16
  Combine combine = Combine::Write;
  float* node = nullptr;                 ///< the flat row
  const StepControl* control = nullptr;  ///< for the loss scale
};

/// Rounds the gradients of a replica to the type of a leaf, divides them by the loss scale, and
/// combines them with a node of the tree.
void gather(const GatherCall& call, Stream stream);

/// left[i] += right[i]: two nodes of the tree become the one above them.
void add_rows(float* left, const float* right, std::int64_t count, Stream stream);

}  // namespace lockstep::gpu
