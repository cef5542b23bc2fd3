#include "lockstep/nn/layers/batch_norm_group.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace lockstep::nn::batch_norm {
namespace {

using kernels::Lines;
using kernels::Walk;

/// A first pass goes backwards: what the layer before wrote last may still be in the cache. The
/// second goes forwards, and so begins with what the first read last.
enum class Direction { Forwards, Backwards };

/// Calls `work(lines, chunk)` for each chunk.
template <typename Work>
void for_chunks(const Walk& walk, Direction direction, const Parallel& parallel, const Work& work) {
  constexpr std::int64_t kWorthAThread = 32768;
  const auto grain = std::max<std::int64_t>(1, kWorthAThread / walk.chunk_size);
  parallel(walk.chunks, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const auto chunk = direction == Direction::Forwards ? i : last - 1 - (i - first);
      work(Lines{walk.size_of(chunk), walk.width, walk.block_lines}, chunk);
    }
  });
}

/// A value per channel as a whole line of them.
class Spread {
 public:
  Spread(const Walk& walk, const float* values) {
    line_.reserve(static_cast<std::size_t>(walk.width));
    for (std::int64_t at = 0; at < walk.width; at += walk.channels) {
      line_.insert(line_.end(), values, values + walk.channels);
    }
  }
  const float* data() const { return line_.data(); }

 private:
  std::vector<float> line_;
};

/// Two sums per channel, each chunk's by itself until all are there.
class ChunkSums {
 public:
  explicit ChunkSums(const Walk& walk)
      : walk_(walk),
        sums_(std::make_unique_for_overwrite<double[]>(
            static_cast<std::size_t>(2 * walk.width * walk.chunks))) {}

  double* of(std::int64_t chunk) { return sums_.get() + 2 * walk_.width * chunk; }

  /// Adds up chunks in order, then the rows of a line; `first(c)` and `second(c)` are sums then.
  void combine() {
    auto* total = of(0);
    for (std::int64_t chunk = 1; chunk < walk_.chunks; ++chunk) {
      const auto* more = of(chunk);
      for (std::int64_t i = 0; i < 2 * walk_.width; ++i) total[i] += more[i];
    }
    fold(total);
    fold(total + walk_.width);
  }

  double first(std::int64_t channel) const { return sums_[channel]; }
  double second(std::int64_t channel) const { return sums_[walk_.width + channel]; }

 private:
  void fold(double* line) const {
    for (auto at = walk_.channels; at < walk_.width; at += walk_.channels) {
      for (std::int64_t c = 0; c < walk_.channels; ++c) line[c] += line[at + c];
    }
  }

  const Walk& walk_;
  std::unique_ptr<double[]> sums_;
};

/// About the mean of each channel. Sums of squares about it lose nothing where the mean is large
/// and the variance small. The mean of some rows, because a single one may lie far off.
std::vector<float> typical_row(const Shape& shape, const float* x) {
  const auto samples = std::min<std::int64_t>(shape.rows, 8);
  std::vector<float> typical(static_cast<std::size_t>(shape.channels), 0.0F);
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto* row = x + shape.rows * i / samples * shape.channels;
    for (std::size_t c = 0; c < typical.size(); ++c) typical[c] += row[c];
  }
  for (auto& value : typical) {
    value /= static_cast<float>(samples);
    if (!std::isfinite(value)) value = 0.0F;
  }
  return typical;
}

struct Moments {
  double mean;
  double variance;
};

void use_moments(std::int64_t channel, const Moments& moments, const Parameters& parameters,
                 const Normalization& normalization) {
  const auto inverse_deviation = 1.0 / std::sqrt(moments.variance + parameters.epsilon);
  const auto scale = static_cast<float>(parameters.weight[channel] * inverse_deviation);
  normalization.mean[channel] = static_cast<float>(moments.mean);
  normalization.inverse_deviation[channel] = static_cast<float>(inverse_deviation);
  normalization.scale[channel] = scale;
  normalization.offset[channel] =
      static_cast<float>(parameters.bias[channel] - moments.mean * scale);
}

/// What a group was normalized with, as the backward pass reads it.
class SpreadNormalization {
 public:
  SpreadNormalization(const Walk& walk, const Normalization& normalization)
      : mean_(walk, normalization.mean),
        scale_(walk, normalization.scale),
        offset_(walk, normalization.offset) {}

  kernels::GradientSource source(const Arriving& arriving, std::int64_t begin) const {
    const auto from = [begin](const float* all) { return all == nullptr ? nullptr : all + begin; };
    return {from(arriving.x), from(arriving.dy), from(arriving.more_dy), from(arriving.y),
            mean_.data(),     scale_.data(),     offset_.data()};
  }

 private:
  Spread mean_;
  Spread scale_;
  Spread offset_;
};

/// The part of dx that is linear in x - mean: what the group's mean and variance take from it.
struct LinearPart {
  std::vector<float> slope;
  std::vector<float> constant;
};

LinearPart linear_part(const Shape& shape, const Normalization& normalization,
                       const ChunkSums& sums) {
  LinearPart part;
  const auto count = static_cast<double>(shape.rows);
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const double scale = normalization.scale[c];
    const double inverse = normalization.inverse_deviation[c];
    part.slope.push_back(static_cast<float>(-scale * inverse * inverse * sums.second(c) / count));
    part.constant.push_back(static_cast<float>(-scale * sums.first(c) / count));
  }
  return part;
}

void move_towards(double value, double momentum, float& running) {
  running = static_cast<float>(momentum * value + (1.0 - momentum) * running);
}

}  // namespace

void take_statistics(const Shape& shape, const float* x, const Parameters& parameters,
                     const Normalization& normalization, const Parallel& parallel) {
  const Walk walk(shape.rows, shape.channels);
  const auto typical = typical_row(shape, x);
  const Spread shift(walk, typical.data());
  ChunkSums sums(walk);
  for_chunks(walk, Direction::Backwards, parallel, [&](const Lines& lines, std::int64_t chunk) {
    kernels::sum_values(lines, x + walk.begin(chunk), shift.data(), sums.of(chunk));
  });
  sums.combine();
  const auto count = static_cast<double>(shape.rows);
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const auto off = sums.first(c) / count;
    const auto variance = sums.second(c) / count - off * off;
    const Moments moments{typical[static_cast<std::size_t>(c)] + off,
                          variance < 0.0 ? 0.0 : variance};
    use_moments(c, moments, parameters, normalization);
    if (parameters.running_mean == nullptr) continue;
    move_towards(moments.mean, parameters.momentum, parameters.running_mean[c]);
    move_towards(moments.variance * (count / (count - 1.0)), parameters.momentum,
                 parameters.running_variance[c]);
  }
}

void use_running_statistics(std::int64_t channels, const Parameters& parameters, float* scale,
                            float* offset) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto deviation = std::sqrt(parameters.running_variance[c] + parameters.epsilon);
    scale[c] = static_cast<float>(parameters.weight[c] / deviation);
    offset[c] = static_cast<float>(parameters.bias[c] -
                                   static_cast<double>(parameters.running_mean[c]) * scale[c]);
  }
}

void apply(const Shape& shape, const float* x, const float* residual, const float* scale,
           const float* offset, Activation activation, float* y, const Parallel& parallel) {
  const Walk walk(shape.rows, shape.channels);
  const Spread scales(walk, scale);
  const Spread offsets(walk, offset);
  for_chunks(walk, Direction::Forwards, parallel, [&](const Lines& lines, std::int64_t chunk) {
    const auto begin = walk.begin(chunk);
    kernels::normalize(lines, x + begin, residual == nullptr ? nullptr : residual + begin,
                       scales.data(), offsets.data(), activation, y + begin);
  });
}

void backward(const Shape& shape, const Arriving& arriving, const Normalization& normalization,
              const Gradients& gradients, const Parallel& parallel) {
  const Walk walk(shape.rows, shape.channels);
  const SpreadNormalization spread(walk, normalization);
  ChunkSums sums(walk);
  for_chunks(walk, Direction::Backwards, parallel, [&](const Lines& lines, std::int64_t chunk) {
    const auto begin = walk.begin(chunk);
    kernels::sum_gradients(lines, spread.source(arriving, begin), arriving.gate,
                           gradients.dz == nullptr ? nullptr : gradients.dz + begin,
                           sums.of(chunk));
  });
  sums.combine();
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    if (gradients.weight != nullptr) {
      gradients.weight[c] = static_cast<float>(sums.second(c) * normalization.inverse_deviation[c]);
    }
    if (gradients.bias != nullptr) gradients.bias[c] = static_cast<float>(sums.first(c));
  }
  if (gradients.dx == nullptr) return;
  auto passed = arriving;
  if (gradients.dz != nullptr) {
    passed.dy = gradients.dz;
    passed.more_dy = nullptr;
    passed.gate = Gate::Open;
  }
  const auto linear = linear_part(shape, normalization, sums);
  const Spread slope(walk, linear.slope.data());
  const Spread constant(walk, linear.constant.data());
  for_chunks(walk, Direction::Forwards, parallel, [&](const Lines& lines, std::int64_t chunk) {
    const auto begin = walk.begin(chunk);
    kernels::input_gradient(lines, spread.source(passed, begin), passed.gate, slope.data(),
                            constant.data(), gradients.dx + begin);
  });
}

}  // namespace lockstep::nn::batch_norm
