#pragma once

#include <cstdint>

/// Loops of batch normalization over a matrix [rows][channels] of f32, compiled for each vector
/// unit; the best that this machine has is chosen at run time.
///
/// All units give the same bits: channels never mix, each number gets the same instructions
/// wherever it stands, multiply and add are never one instruction, and `Walk` fixes the order in
/// which numbers are added.
namespace lockstep::nn::kernels {

/// The order in which a matrix is walked: a function of its shape alone, so that sums are too.
///
/// Where channels are few, rows that follow each other count as one line of `width` numbers, the
/// last line perhaps shorter. Lines are summed in blocks in f32, blocks in order in f64. A chunk
/// is some blocks: what one thread sums; chunks are then added in order. What belongs to a channel
/// (a mean, a scale) is handed over spread to a whole line.
struct Walk {
  Walk(std::int64_t rows, std::int64_t channels);

  /// Numbers before chunk `i`, and in it.
  std::int64_t begin(std::int64_t i) const { return i * chunk_size; }
  std::int64_t size_of(std::int64_t i) const;

  std::int64_t size;  ///< numbers of the matrix
  std::int64_t channels;
  std::int64_t width;
  std::int64_t block_lines;
  std::int64_t chunk_size;
  std::int64_t chunks;
};

/// Whole lines that follow each other; at the end of a matrix perhaps a shorter one.
struct Lines {
  std::int64_t size;
  std::int64_t width;
  std::int64_t block_lines;
};

enum class Activation { None, Relu };

/// Where a gradient passes the ReLU.
enum class Gate {
  Open,    ///< there is no ReLU
  Input,   ///< where x * scale + offset is not <= 0
  Output,  ///< where y is not <= 0
};

/// What gradients are made of. `mean`, `scale` and `offset` are spread; `y` is for Gate::Output.
struct GradientSource {
  const float* x;
  const float* dy;
  const float* more_dy;  ///< to be added to dy, or null; for `sum_gradients` that writes dz
  const float* y;
  const float* mean;
  const float* scale;
  const float* offset;
};

/// sums[0][width] of x - shift, sums[1][width] of its square.
void sum_values(const Lines& lines, const float* x, const float* shift, double* sums);

/// y = activation(x * scale + offset + residual), where `residual` may be null.
void normalize(const Lines& lines, const float* x, const float* residual, const float* scale,
               const float* offset, Activation activation, float* y);

/// sums[0][width] of dz, which is dy where the gate lets it pass, and sums[1][width] of
/// dz * (x - mean). Writes dz where it is not null, which takes Gate::Output.
void sum_gradients(const Lines& lines, const GradientSource& source, Gate gate, float* dz,
                   double* sums);

/// dx = dz * scale + ((x - mean) * slope + constant).
void input_gradient(const Lines& lines, const GradientSource& source, Gate gate, const float* slope,
                    const float* constant, float* dx);

}  // namespace lockstep::nn::kernels
