#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/gpu/stream.h"

namespace lockstep::gpu {

// Batch normalization per group of a batch, with the addition and the ReLU that follow it in a
// residual network, in as few passes over memory as the chip allows. Pictures lie channels-last: a
// batch is a matrix of groups · rows rows, each with all channels of a pixel.
//
// Sums are f32, and go in an order that shape, chip and the alignment of memory alone decide;
// nothing is added atomically. So equal inputs give equal bits in every run. Fastest is memory that
// is aligned to 16 bytes, with rows that are too.
//
// No call waits for the GPU, or has memory of its own: all can be captured, after a first call that
// loads their kernels.

struct NormShape {
  DataType type = DataType::F32;  ///< of activations and their gradients: F32, F16 or BF16
  std::int64_t groups = 1;        ///< parts of the batch, each normalized by its own statistics
  std::int64_t rows = 0;          ///< of one group: samples · height · width
  std::int64_t channels = 0;
};

enum class NormActivation : std::uint8_t { None, Relu };

/// f32 numbers per channel.
struct NormParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;
  float epsilon = 1e-5F;
};

/// What a training pass leaves for its backward pass: f32 [groups, channels].
struct NormStatistics {
  float* mean = nullptr;
  float* inverse_deviation = nullptr;
};

/// f32 [channels]. Every chain of groups / chains consecutive groups moves a copy of them, group by
/// group, towards its mean and unbiased variance (that of a single row is 0); what remains is the
/// mean of the copies, added along the fixed tree over chains. None moves where `mean` is none.
struct NormRunning {
  float* mean = nullptr;
  float* variance = nullptr;
  float momentum = 0.1F;
  std::int64_t chains = 1;
  std::int64_t* count = nullptr;  ///< of groups that moved them, raised by those of a chain
};

struct NormForward {
  NormShape shape{};
  NormParameters parameters{};
  NormActivation activation = NormActivation::None;
  const void* x = nullptr;
  const void* residual = nullptr;  ///< added before the activation; may be none
  void* y = nullptr;
  /// A bit for each number of y: not <= 0. May be none; has to be where nothing was added.
  std::uint8_t* marks = nullptr;
  NormStatistics statistics{};
  NormRunning running{};
  void* workspace = nullptr;  ///< `norm_workspace_bytes`
};

/// Where the ReLU let values pass is seen by `marks` or by `y`, one of which has to be there where
/// a residual was added; where none was and both are none, it is computed from x again, for less
/// memory to read.
///
/// The sum of both `dy` counts as rounded to their type, as if it had been written to memory.
struct NormBackward {
  NormShape shape{};
  NormParameters parameters{};
  NormActivation activation = NormActivation::None;
  const void* x = nullptr;
  const void* y = nullptr;
  const std::uint8_t* marks = nullptr;  ///< what the forward pass wrote
  NormStatistics statistics{};
  const void* dy = nullptr;
  const void* second_dy = nullptr;    ///< of a second user of y, added first; may be none
  void* dx = nullptr;                 ///< may be `dy` or `second_dy`
  void* residual_gradient = nullptr;  ///< may be none; may be `dy` or `second_dy`, but not `dx`
  float* weight_gradient = nullptr;   ///< f32 [channels]: over all groups, added in order, or none
  float* bias_gradient = nullptr;     ///< the same
  void* workspace = nullptr;
};

struct NormEvaluation {
  NormShape shape{};  ///< of one group
  NormParameters parameters{};
  NormActivation activation = NormActivation::None;
  const void* x = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
};

/// Bytes that a forward or a backward pass needs while it runs.
std::size_t norm_workspace_bytes(const NormShape& shape);

/// Bytes of marks; 0 where a forward pass writes none: without a residual, or where rows do not
/// begin at 16 bytes.
std::size_t norm_mark_bytes(const NormForward& call);

/// Errors: `Options` for a shape that cannot be normalized, and for calls that contradict
/// themselves.
void norm_forward(const NormForward& call, Stream stream);
void norm_backward(const NormBackward& call, Stream stream);
void norm_evaluate(const NormEvaluation& call, Stream stream);

}  // namespace lockstep::gpu
