#include "lockstep/optimizer/update_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/half.h"
#include "lockstep/optimizer/coefficients.h"

// Highway compiles this file once for each vector unit; the loops are plain, and the compiler
// turns them into that unit's instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/optimizer/update_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::optimizer::HWY_NAMESPACE {
namespace {

/// How many elements stand before the next cache line begins.
std::size_t count_to_line(const float* row) {
  constexpr std::uintptr_t kLine = 64;
  return (kLine - reinterpret_cast<std::uintptr_t>(row) % kLine) % kLine / sizeof(float);
}

/// Calls `element(i)` for each, in any order: rows that it writes may be rows that it reads, but
/// element i of them alone.
///
/// The rows of a slice mostly stand alike in their lines. From the first whole line on, vectors
/// are then whole lines too, which is twice as fast as vectors that lie across two of them.
template <typename Element>
HWY_ATTR void for_each_element(const Rows& rows, Element element) {
  const auto count = rows.count;
  const auto head = count_to_line(rows.next_weights);
  auto end = head < count ? head : count;
  for (std::size_t i = 0; i < count; end = count) {
#pragma GCC ivdep
    for (std::size_t k = i; k < end; ++k) element(k);
    i = end;
  }
}

float sgd_gradient(const Rows& rows, const SgdCoefficients& by, std::size_t i) {
  return rows.gradient[i] * by.gradient_scale + by.weight_decay * rows.weights[i];
}

struct PlainSgd {
  Rows rows;
  SgdCoefficients by;

  void operator()(std::size_t i) const {
    rows.next_weights[i] = rows.weights[i] - by.lr * sgd_gradient(rows, by, i);
  }
};

template <bool nesterov>
struct MomentumSgd {
  Rows rows;
  SgdCoefficients by;

  void operator()(std::size_t i) const {
    const float gradient = sgd_gradient(rows, by, i);
    const float momentum = by.momentum * rows.first[i] + gradient;
    const float direction = nesterov ? gradient + by.momentum * momentum : momentum;
    rows.next_weights[i] = rows.weights[i] - by.lr * direction;
    rows.next_first[i] = momentum;
  }
};

HWY_ATTR void update_sgd(const SgdOptions& options, const Rows& rows, const SgdCoefficients& by) {
  if (options.momentum == 0) return for_each_element(rows, PlainSgd{rows, by});
  if (options.nesterov) return for_each_element(rows, MomentumSgd<true>{rows, by});
  for_each_element(rows, MomentumSgd<false>{rows, by});
}

/// The two averages of an element, with this gradient.
struct Moments {
  float first;
  float second;
};

Moments next_moments(const Rows& rows, const AdamCoefficients& by, std::size_t i, float gradient) {
  return {by.beta1 * rows.first[i] + by.rest1 * gradient,
          by.beta2 * rows.second[i] + by.rest2 * gradient * gradient};
}

float denominator(const AdamCoefficients& by, Moments moments) {
  return __builtin_sqrtf(moments.second) / by.root_bias2 + by.epsilon;
}

/// `decoupled`: AdamW, whose weight decay is none of the gradient's business.
template <bool decoupled>
struct AdamStep {
  Rows rows;
  AdamCoefficients by;

  void operator()(std::size_t i) const {
    const float scaled = rows.gradient[i] * by.gradient_scale;
    const float weight = decoupled ? rows.weights[i] * by.shrink : rows.weights[i];
    const auto moments =
        next_moments(rows, by, i, decoupled ? scaled : scaled + by.weight_decay * weight);
    rows.next_weights[i] = weight - by.step_size * moments.first / denominator(by, moments);
    rows.next_first[i] = moments.first;
    rows.next_second[i] = moments.second;
  }
};

Moments lamb_moments(const Rows& rows, const AdamCoefficients& by, std::size_t i) {
  return next_moments(rows, by, i, rows.gradient[i] * by.gradient_scale);
}

float lamb_direction(const Rows& rows, const AdamCoefficients& by, std::size_t i, Moments moments) {
  return by.inverse_bias1 * moments.first / denominator(by, moments) +
         by.weight_decay * rows.weights[i];
}

struct LambStep {
  Rows rows;
  AdamCoefficients by;

  void operator()(std::size_t i) const {
    const auto moments = lamb_moments(rows, by, i);
    const float direction = lamb_direction(rows, by, i, moments);
    rows.next_weights[i] = rows.weights[i] - by.step_size * direction;
    rows.next_first[i] = moments.first;
    rows.next_second[i] = moments.second;
  }
};

HWY_ATTR void update_adam(OptimizerKind kind, const Rows& rows, const AdamCoefficients& by) {
  if (kind == OptimizerKind::Lamb) return for_each_element(rows, LambStep{rows, by});
  if (kind == OptimizerKind::AdamW) return for_each_element(rows, AdamStep<true>{rows, by});
  for_each_element(rows, AdamStep<false>{rows, by});
}

/// As many sums side by side, on every vector unit: element i goes to sum i % kSums. A square of
/// an f32 is exact in double, so the order of additions is all that could differ.
constexpr std::size_t kSums = 16;

struct SquareSums {
  alignas(64) double sums[kSums] = {};

  /// `count` is a multiple of `kSums`, but for the last time.
  void add(const float* values, std::size_t count) {
    std::size_t i = 0;
    for (; i + kSums <= count; i += kSums) {
      for (std::size_t lane = 0; lane < kSums; ++lane) add(values[i + lane], lane);
    }
    for (; i < count; ++i) add(values[i], i % kSums);
  }

  void add(float value, std::size_t lane) {
    sums[lane] += static_cast<double>(value) * static_cast<double>(value);
  }

  double total() const {
    double halves[kSums];
    for (std::size_t i = 0; i < kSums; ++i) halves[i] = sums[i];
    for (auto left = kSums / 2; left > 0; left /= 2) {
      for (std::size_t i = 0; i < left; ++i) halves[i] += halves[i + left];
    }
    return halves[0];
  }
};

double sum_of_squares(const float* values, std::size_t count) {
  SquareSums sums;
  sums.add(values, count);
  return sums.total();
}

/// Directions are made a few at a time, and never leave the first cache.
void trust_sums(const Rows& rows, const AdamCoefficients& by, TrustSums& result) {
  constexpr std::size_t kChunk = 1024;
  static_assert(kChunk % kSums == 0);
  alignas(64) float directions[kChunk];
  SquareSums squares;
  for (std::size_t begin = 0; begin < rows.count; begin += kChunk) {
    const auto count = rows.count - begin < kChunk ? rows.count - begin : kChunk;
    for (std::size_t i = 0; i < count; ++i) {
      directions[i] = lamb_direction(rows, by, begin + i, lamb_moments(rows, by, begin + i));
    }
    squares.add(directions, count);
  }
  result = {sum_of_squares(rows.weights, rows.count), squares.total()};
}

void average(float decay, float rest, const float* average, const float* weights, float* next,
             std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) next[i] = decay * average[i] + rest * weights[i];
}

std::int64_t count_not_finite(const float* values, std::size_t count) {
  constexpr std::uint32_t kExponent = 0x7f800000U;
  std::int64_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found += (std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent ? 1 : 0;
  }
  return found;
}

void divide(float divisor, const float* from, float* to, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i] / divisor;
}

void round_leaf(DataType type, float scale, const float* from, float* to, std::size_t count) {
  if (type == DataType::F16) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) to[i] = to_float(to_float16(from[i])) / scale;
  } else if (type == DataType::BF16) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) to[i] = to_float(to_bfloat16(from[i])) / scale;
  } else {
    divide(scale, from, to, count);
  }
}

void scale(float factor, float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace
}  // namespace lockstep::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::optimizer {
namespace {

HWY_EXPORT(update_sgd);
HWY_EXPORT(update_adam);
HWY_EXPORT(trust_sums);
HWY_EXPORT(average);
HWY_EXPORT(sum_of_squares);
HWY_EXPORT(count_not_finite);
HWY_EXPORT(round_leaf);
HWY_EXPORT(scale);
HWY_EXPORT(divide);

void expect_length(std::string_view where, std::string_view what, std::size_t expected,
                   std::size_t found) {
  if (found == expected) return;
  throw Error(ErrorKind::Bug, fmt::format("{}: expected {} of {} elements, found {}", where, what,
                                          expected, found));
}

void check_rows(const Optimizer& optimizer, const Slice& slice) {
  const auto count = slice.weights.size();
  expect_length(optimizer.name(), "a gradient", count, slice.gradient.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(optimizer.num_states()); ++i) {
    expect_length(optimizer.name(), "a state", count, slice.state[i].size());
  }
}

void check_next_rows(const Optimizer& optimizer, const Slice& slice) {
  const auto count = slice.weights.size();
  expect_length(optimizer.name(), "next weights", count, slice.next_weights.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(optimizer.num_states()); ++i) {
    expect_length(optimizer.name(), "a next state", count, slice.next_state[i].size());
  }
}

/// A part of a row; a state that is not kept stays empty.
template <typename T>
std::span<T> part_of(std::span<T> row, std::size_t begin, std::size_t count) {
  return row.empty() ? row : row.subspan(begin, count);
}

Slice part_of(const Slice& slice, std::size_t begin, std::span<const float> gradient) {
  const auto count = gradient.size();
  return {.gradient = gradient,
          .weights = part_of(slice.weights, begin, count),
          .next_weights = part_of(slice.next_weights, begin, count),
          .state = {part_of(slice.state[0], begin, count), part_of(slice.state[1], begin, count)},
          .next_state = {part_of(slice.next_state[0], begin, count),
                         part_of(slice.next_state[1], begin, count)}};
}

/// The gradient belongs to others, so it is scaled a chunk at a time, beside it.
void update_custom(const UpdateSlice& update, const Slice& slice, const UpdateFacts& facts,
                   float gradient_scale) {
  if (gradient_scale == 1.0F) return update(slice, facts);
  std::array<float, 2048> scaled;
  for (std::size_t begin = 0; begin < slice.gradient.size(); begin += scaled.size()) {
    const auto count = std::min(scaled.size(), slice.gradient.size() - begin);
    std::copy_n(slice.gradient.data() + begin, count, scaled.data());
    scale(gradient_scale, std::span(scaled).first(count));
    update(part_of(slice, begin, std::span(scaled).first(count)), facts);
  }
}

}  // namespace

void update(const Optimizer& optimizer, const Slice& slice, const UpdateFacts& facts,
            float gradient_scale, double trust) {
  check_rows(optimizer, slice);
  check_next_rows(optimizer, slice);
  switch (optimizer.kind()) {
    case OptimizerKind::Sgd:
      return HWY_DYNAMIC_DISPATCH(update_sgd)(
          optimizer.sgd(), rows_of(slice),
          sgd_coefficients(optimizer.sgd(), facts, gradient_scale));
    case OptimizerKind::Adam:
    case OptimizerKind::AdamW:
      return HWY_DYNAMIC_DISPATCH(update_adam)(
          optimizer.kind(), rows_of(slice),
          adam_coefficients(optimizer.adam(), facts, gradient_scale));
    case OptimizerKind::Lamb:
      return HWY_DYNAMIC_DISPATCH(update_adam)(
          optimizer.kind(), rows_of(slice),
          lamb_coefficients(optimizer.adam(), facts, gradient_scale, trust));
    case OptimizerKind::Custom:
      return update_custom(optimizer.custom().update, slice, facts, gradient_scale);
  }
}

TrustSums trust_sums(const Optimizer& optimizer, const Slice& slice, const UpdateFacts& facts,
                     float gradient_scale) {
  if (optimizer.kind() != OptimizerKind::Lamb) {
    throw Error(ErrorKind::Bug,
                fmt::format("trust sums: expected LAMB, found {}", optimizer.name()));
  }
  check_rows(optimizer, slice);
  TrustSums sums;
  HWY_DYNAMIC_DISPATCH(trust_sums)
  (rows_of(slice), adam_coefficients(optimizer.adam(), facts, gradient_scale), sums);
  return sums;
}

void average(double decay, std::span<const float> average, std::span<const float> weights,
             std::span<float> next) {
  expect_length("average", "an average", weights.size(), average.size());
  expect_length("average", "a next average", weights.size(), next.size());
  HWY_DYNAMIC_DISPATCH(average)
  (static_cast<float>(decay), static_cast<float>(1 - decay), average.data(), weights.data(),
   next.data(), next.size());
}

double sum_of_squares(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares)(values.data(), values.size());
}

std::int64_t count_not_finite(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(count_not_finite)(values.data(), values.size());
}

void round_leaf(DataType type, float scale, std::span<const float> from, std::span<float> to) {
  expect_length("round leaf", "room", from.size(), to.size());
  HWY_DYNAMIC_DISPATCH(round_leaf)(type, scale, from.data(), to.data(), to.size());
}

void scale(float factor, std::span<float> values) {
  HWY_DYNAMIC_DISPATCH(scale)(factor, values.data(), values.size());
}

void divide(float divisor, std::span<float> values) {
  HWY_DYNAMIC_DISPATCH(divide)(divisor, values.data(), values.data(), values.size());
}

}  // namespace lockstep::optimizer
#endif  // HWY_ONCE
