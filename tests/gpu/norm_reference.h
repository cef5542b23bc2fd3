#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/base/half.h"
#include "lockstep/gpu/layers/batch_norm.h"

namespace lockstep::gpu {

// Batch normalization in f64, plainly, with how far f32 sums may be from it.

struct NormCase {
  std::int64_t groups = 1;
  std::int64_t rows = 1;
  std::int64_t channels = 1;
  bool has_residual = false;
  bool is_relu = false;
  bool has_second = false;
  std::int64_t chains = 1;
  double mean = 0.5;  ///< of x, about
  double deviation = 1;

  std::int64_t size() const { return groups * rows * channels; }
  std::int64_t statistics() const { return groups * channels; }
};

inline std::ostream& operator<<(std::ostream& out, const NormCase& norm) {
  return out << norm.groups << " x " << norm.rows << " x " << norm.channels
             << (norm.has_residual ? " residual" : "") << (norm.is_relu ? " relu" : "")
             << (norm.has_second ? " second" : "") << " chains " << norm.chains;
}

inline float to_float(float value) {
  return value;
}

template <typename T>
T rounded(double value) {
  const auto single = static_cast<float>(value);
  if constexpr (kTypeOf<T> == DataType::F32) {
    return single;
  } else if constexpr (kTypeOf<T> == DataType::F16) {
    return to_float16(single);
  } else {
    return to_bfloat16(single);
  }
}

/// How much of a number one rounding to T may take.
template <typename T>
constexpr double rounding() {
  return kTypeOf<T> == DataType::F32 ? 1e-6 : kTypeOf<T> == DataType::F16 ? 1e-3 : 8e-3;
}

/// About normal, different everywhere, and the same in every run.
inline double random_at(std::uint64_t seed, std::uint64_t index) {
  double sum = 0;
  auto state = seed * 0x9e3779b97f4a7c15U + index * 0xbf58476d1ce4e5b9U;
  for (int i = 0; i < 4; ++i) {
    state += 0x9e3779b97f4a7c15U;
    auto bits = state;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    sum += static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53 - 0.5;
  }
  return sum * 1.732;
}

template <typename T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed, double mean,
                             double deviation) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = rounded<T>(mean + deviation * random_at(seed, i));
  }
  return values;
}

/// What both passes are given. Channels differ in mean and deviation, groups too.
template <typename T>
struct NormInputs {
  explicit NormInputs(const NormCase& norm)
      : x(random_values<T>(norm.size(), 1, 0, 1)),
        residual(random_values<T>(norm.has_residual ? norm.size() : 0, 2, 0, 1)),
        dy(random_values<T>(norm.size(), 3, 0.25, 1)),
        second(random_values<T>(norm.has_second ? norm.size() : 0, 4, 0, 1)),
        weight(random_values<float>(norm.channels, 5, 1, 0.25)),
        bias(random_values<float>(norm.channels, 6, 0, 0.5)),
        running_mean(random_values<float>(norm.channels, 7, 0, 1)),
        running_variance(random_values<float>(norm.channels, 8, 3, 0.5)) {
    for (std::int64_t i = 0; i < norm.size(); ++i) {
      const auto channel = i % norm.channels;
      const auto group = i / (norm.rows * norm.channels);
      auto& value = x[static_cast<std::size_t>(i)];
      const auto deviation = norm.deviation * (1 + 0.125 * static_cast<double>(channel % 5));
      const auto mean = norm.mean * (1 + 0.0625 * static_cast<double>((channel + group) % 7));
      value = rounded<T>(mean + deviation * static_cast<double>(to_float(value)));
    }
  }

  std::vector<T> x;
  std::vector<T> residual;
  std::vector<T> dy;
  std::vector<T> second;
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<float> running_mean;
  std::vector<float> running_variance;
};

/// Numbers, and how far others may be from them.
struct Expected {
  explicit Expected(std::int64_t count)
      : values(static_cast<std::size_t>(count)), within(static_cast<std::size_t>(count)) {}
  void set(std::int64_t at, double value, double tolerance) {
    values[static_cast<std::size_t>(at)] = value;
    within[static_cast<std::size_t>(at)] = tolerance;
  }
  std::vector<double> values;
  std::vector<double> within;
};

struct GroupMoments {
  std::vector<double> mean;
  std::vector<double> variance;
};

template <typename T>
GroupMoments moments_of_group(const NormCase& norm, const std::vector<T>& x, std::int64_t group) {
  const auto channels = static_cast<std::size_t>(norm.channels);
  GroupMoments moments{std::vector<double>(channels), std::vector<double>(channels)};
  const auto* from = x.data() + group * norm.rows * norm.channels;
  for (std::int64_t i = 0; i < norm.rows * norm.channels; ++i) {
    moments.mean[static_cast<std::size_t>(i % norm.channels)] += to_float(from[i]);
  }
  for (auto& mean : moments.mean) mean /= static_cast<double>(norm.rows);
  for (std::int64_t i = 0; i < norm.rows * norm.channels; ++i) {
    const auto c = static_cast<std::size_t>(i % norm.channels);
    moments.variance[c] += std::pow(to_float(from[i]) - moments.mean[c], 2);
  }
  for (auto& variance : moments.variance) variance /= static_cast<double>(norm.rows);
  return moments;
}

struct ExpectedForward {
  explicit ExpectedForward(const NormCase& norm)
      : y(norm.size()),
        mean(norm.statistics()),
        inverse_deviation(norm.statistics()),
        running_mean(norm.channels),
        running_variance(norm.channels) {}
  Expected y;
  Expected mean;
  Expected inverse_deviation;
  Expected running_mean;
  Expected running_variance;
};

inline constexpr double kEpsilon = 1e-5;
inline constexpr double kMomentum = 0.125;

/// The mean over chains: so few numbers need no tree in f64.
inline void expect_running(const NormCase& norm, const std::vector<double>& towards,
                           const std::vector<float>& start, Expected& expected) {
  const auto length = norm.groups / norm.chains;
  for (std::int64_t c = 0; c < norm.channels; ++c) {
    double sum = 0;
    for (std::int64_t chain = 0; chain < norm.chains; ++chain) {
      double value = start[static_cast<std::size_t>(c)];
      for (auto group = chain * length; group < (chain + 1) * length; ++group) {
        const auto at = static_cast<std::size_t>(group * norm.channels + c);
        value = (1 - kMomentum) * value + kMomentum * towards[at];
      }
      sum += value;
    }
    const auto mean = sum / static_cast<double>(norm.chains);
    expected.set(c, mean, 1e-5 * (1 + std::abs(mean)));
  }
}

template <typename T>
ExpectedForward expect_forward(const NormCase& norm, const NormInputs<T>& in) {
  ExpectedForward expected(norm);
  std::vector<double> means, unbiased;
  const auto rows = static_cast<double>(norm.rows);
  for (std::int64_t group = 0; group < norm.groups; ++group) {
    const auto moments = moments_of_group(norm, in.x, group);
    for (std::int64_t i = 0; i < norm.channels; ++i) {
      const auto c = static_cast<std::size_t>(i);
      const auto at = group * norm.channels + i;
      const auto inverse = 1 / std::sqrt(moments.variance[c] + kEpsilon);
      expected.mean.set(at, moments.mean[c], 1e-6 * std::abs(moments.mean[c]) + 2e-6 / inverse);
      // Means of parts are f32, and each is off by half of its last bit.
      const auto off = 1e-5 + 2e-8 * std::abs(moments.mean[c]) * inverse;
      expected.inverse_deviation.set(at, inverse, off * inverse);
      means.push_back(moments.mean[c]);
      unbiased.push_back(norm.rows > 1 ? moments.variance[c] * rows / (rows - 1) : 0);
    }
    for (std::int64_t i = 0; i < norm.rows * norm.channels; ++i) {
      const auto c = static_cast<std::size_t>(i % norm.channels);
      const auto at = group * norm.rows * norm.channels + i;
      const auto element = static_cast<std::size_t>(at);
      const auto scale = in.weight[c] / std::sqrt(moments.variance[c] + kEpsilon);
      auto y = (to_float(in.x[element]) - moments.mean[c]) * scale + in.bias[c];
      if (norm.has_residual) y += to_float(in.residual[element]);
      if (norm.is_relu) y = std::max(y, 0.0);
      // The mean is f32, and so is off by half of its last bit.
      const auto off = 2.5e-7 * std::abs(moments.mean[c] * scale);
      expected.y.set(at, y, 4e-5 + off + (1e-5 + rounding<T>()) * std::abs(y));
    }
  }
  expect_running(norm, means, in.running_mean, expected.running_mean);
  expect_running(norm, unbiased, in.running_variance, expected.running_variance);
  return expected;
}

struct ExpectedBackward {
  explicit ExpectedBackward(const NormCase& norm)
      : dx(norm.size()),
        residual_gradient(norm.has_residual ? norm.size() : 0),
        weight_gradient(norm.channels),
        bias_gradient(norm.channels) {}
  Expected dx;
  Expected residual_gradient;
  Expected weight_gradient;
  Expected bias_gradient;
};

/// What a forward pass left: f32 statistics, and y in T where a residual was added.
template <typename T>
struct NormKept {
  std::vector<float> mean;
  std::vector<float> inverse_deviation;
  std::vector<T> y;
};

template <typename T>
NormKept<T> keep(const ExpectedForward& forward) {
  NormKept<T> kept;
  for (const auto value : forward.mean.values) kept.mean.push_back(static_cast<float>(value));
  for (const auto value : forward.inverse_deviation.values) {
    kept.inverse_deviation.push_back(static_cast<float>(value));
  }
  for (const auto value : forward.y.values) kept.y.push_back(rounded<T>(value));
  return kept;
}

/// The gradient behind the gate. Where rounding decides whether x is let through, the input is set
/// to zero, so that both answers are right.
template <typename T>
std::vector<double> pass_gate(const NormCase& norm, const NormKept<T>& kept, NormInputs<T>& in) {
  std::vector<double> passed(static_cast<std::size_t>(norm.size()));
  for (std::int64_t i = 0; i < norm.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto channel = static_cast<std::size_t>(i % norm.channels);
    const auto statistic =
        static_cast<std::size_t>(i / (norm.rows * norm.channels) * norm.channels) + channel;
    const auto normalized = (static_cast<double>(to_float(in.x[at])) - kept.mean[statistic]) *
                                kept.inverse_deviation[statistic] * in.weight[channel] +
                            in.bias[channel];
    if (norm.is_relu && !norm.has_residual && std::abs(normalized) < 1e-3) {
      in.dy[at] = T{};
      if (norm.has_second) in.second[at] = T{};
    }
    double gradient = to_float(in.dy[at]);
    if (norm.has_second) {
      gradient = to_float(rounded<T>(gradient + to_float(in.second[at])));
    }
    const auto gate = norm.has_residual ? static_cast<double>(to_float(kept.y[at])) : normalized;
    passed[at] = norm.is_relu && gate <= 0 ? 0 : gradient;
  }
  return passed;
}

template <typename T>
ExpectedBackward expect_backward(const NormCase& norm, const NormKept<T>& kept, NormInputs<T>& in) {
  ExpectedBackward expected(norm);
  const auto passed = pass_gate(norm, kept, in);
  const auto channels = static_cast<std::size_t>(norm.channels);
  const auto rows = static_cast<double>(norm.rows);
  std::vector<double> weight(channels), bias(channels), weight_off(channels), bias_off(channels);
  for (std::int64_t group = 0; group < norm.groups; ++group) {
    std::vector<double> sum(channels), product(channels);
    const auto first = group * norm.rows * norm.channels;
    const auto hat = [&](std::int64_t at) {
      const auto statistic = static_cast<std::size_t>(group * norm.channels + at % norm.channels);
      return (static_cast<double>(to_float(in.x[static_cast<std::size_t>(at)])) -
              kept.mean[statistic]) *
             kept.inverse_deviation[statistic];
    };
    for (auto at = first; at < first + norm.rows * norm.channels; ++at) {
      const auto c = static_cast<std::size_t>(at % norm.channels);
      const auto gradient = passed[static_cast<std::size_t>(at)];
      sum[c] += gradient;
      product[c] += gradient * hat(at);
      bias_off[c] += 2e-6 * std::abs(gradient);
      weight_off[c] += 2e-6 * std::abs(gradient * hat(at));
    }
    for (std::size_t c = 0; c < channels; ++c) {
      bias[c] += sum[c];
      weight[c] += product[c];
    }
    for (auto at = first; at < first + norm.rows * norm.channels; ++at) {
      const auto c = static_cast<std::size_t>(at % norm.channels);
      const auto gradient = passed[static_cast<std::size_t>(at)];
      const auto scale = std::abs(in.weight[c]) *
                         kept.inverse_deviation[static_cast<std::size_t>(group) * channels + c];
      const auto dx = std::copysign(scale, in.weight[c]) *
                      (gradient - sum[c] / rows - hat(at) * product[c] / rows);
      expected.dx.set(at, dx, 4e-5 * scale + rounding<T>() * std::abs(dx));
      if (norm.has_residual) expected.residual_gradient.set(at, gradient, 0);
    }
  }
  for (std::int64_t c = 0; c < norm.channels; ++c) {
    const auto at = static_cast<std::size_t>(c);
    expected.weight_gradient.set(c, weight[at], 1e-6 + weight_off[at]);
    expected.bias_gradient.set(c, bias[at], 1e-6 + bias_off[at]);
  }
  return expected;
}

}  // namespace lockstep::gpu
