#include "lockstep/nn/layers/batch_norm_kernels.h"

#include <algorithm>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/nn/layers/batch_norm_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::Activation;
using kernels::Gate;
using kernels::GradientSource;
using kernels::Lines;

template <typename D>
using Vector = hn::VFromD<D>;

/// Sums of so many columns stay in the first cache, with four lines of input beside them.
constexpr std::int64_t kTile = 512;

/// Calls `function(tag, column)` for vectors of columns, and single ones at the end.
template <typename Function>
HWY_INLINE void for_columns(std::int64_t begin, std::int64_t end, const Function& function) {
  const hn::ScalableTag<float> vectors;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(vectors));
  auto column = begin;
  for (; column + lanes <= end; column += lanes) function(vectors, column);
  for (; column < end; ++column) function(single, column);
}

/// The two sums of a tile of columns over one block of lines.
struct BlockSums {
  alignas(64) float first[kTile];
  alignas(64) float second[kTile];
};

template <typename D>
HWY_INLINE void add_to(D d, Vector<D> value, float* sum) {
  hn::StoreU(hn::Add(hn::LoadU(d, sum), value), d, sum);
}

/// Four lines at once: sums are then loaded and stored a fourth as often, and chains of additions
/// are shorter.
template <typename Terms>
HWY_INLINE void add_four_lines(const Terms& terms, std::int64_t at, std::int64_t width,
                               std::int64_t begin, std::int64_t end, BlockSums& sums) {
  for_columns(begin, end, [&](auto d, std::int64_t column) HWY_ATTR {
    auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0;
    auto b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    terms(d, at + column, column, a0, b0);
    terms(d, at + width + column, column, a1, b1);
    terms(d, at + 2 * width + column, column, a2, b2);
    terms(d, at + 3 * width + column, column, a3, b3);
    add_to(d, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), sums.first + (column - begin));
    add_to(d, hn::Add(hn::Add(b0, b1), hn::Add(b2, b3)), sums.second + (column - begin));
  });
}

template <typename Terms>
HWY_INLINE void add_line(const Terms& terms, std::int64_t at, std::int64_t begin, std::int64_t end,
                         BlockSums& sums) {
  for_columns(begin, end, [&](auto d, std::int64_t column) HWY_ATTR {
    auto a = hn::Zero(d), b = a;
    terms(d, at + column, column, a, b);
    add_to(d, a, sums.first + (column - begin));
    add_to(d, b, sums.second + (column - begin));
  });
}

HWY_INLINE void add_block(const float* block, std::int64_t count, double* sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(block[i]);
}

/// Columns [begin, end) of all lines. `terms(tag, number, column, first, second)` gives what a
/// number adds to both sums.
template <typename Terms>
HWY_INLINE void sum_columns(const Lines& lines, const Terms& terms, std::int64_t begin,
                            std::int64_t end, double* sums) {
  const auto width = lines.width;
  const auto count = lines.size / width;
  const auto rest = lines.size % width;
  std::fill(sums + begin, sums + end, 0.0);
  std::fill(sums + width + begin, sums + width + end, 0.0);
  BlockSums block;
  std::int64_t line = 0;
  do {
    std::fill_n(block.first, end - begin, 0.0F);
    std::fill_n(block.second, end - begin, 0.0F);
    const auto stop = std::min(count, line + lines.block_lines);
    for (; line + 4 <= stop; line += 4) {
      add_four_lines(terms, line * width, width, begin, end, block);
    }
    for (; line < stop; ++line) add_line(terms, line * width, begin, end, block);
    if (line == count) add_line(terms, count * width, begin, std::min(end, rest), block);
    add_block(block.first, end - begin, sums + begin);
    add_block(block.second, end - begin, sums + width + begin);
  } while (line < count);
}

template <typename Terms>
HWY_INLINE void sum_lines(const Lines& lines, const Terms& terms, double* sums) {
  for (std::int64_t begin = 0; begin < lines.width; begin += kTile) {
    sum_columns(lines, terms, begin, std::min(begin + kTile, lines.width), sums);
  }
}

template <typename Function>
HWY_INLINE void for_numbers(const Lines& lines, const Function& function) {
  for (std::int64_t at = 0; at < lines.size; at += lines.width) {
    const auto end = std::min(lines.width, lines.size - at);
    for_columns(0, end,
                [&](auto d, std::int64_t column) HWY_ATTR { function(d, at + column, column); });
  }
}

template <typename D>
HWY_INLINE Vector<D> scaled(D d, Vector<D> x, const float* scale, const float* offset) {
  return hn::Add(hn::Mul(x, hn::LoadU(d, scale)), hn::LoadU(d, offset));
}

struct ValueTerms {
  const float* x;
  const float* shift;

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t number, std::int64_t column, Vector<D>& first,
                             Vector<D>& second) const {
    first = hn::Sub(hn::LoadU(d, x + number), hn::LoadU(d, shift + column));
    second = hn::Mul(first, first);
  }
};

void sum_values(const Lines& lines, const float* x, const float* shift, double* sums) {
  sum_lines(lines, ValueTerms{x, shift}, sums);
}

/// Not `Max`: a NaN stays one on every unit.
template <typename D>
HWY_INLINE Vector<D> relu(D d, Vector<D> value) {
  return hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value);
}

template <bool has_residual, Activation activation>
void normalize_as(const Lines& lines, const float* x, const float* residual, const float* scale,
                  const float* offset, float* y) {
  for_numbers(lines, [&](auto d, std::int64_t number, std::int64_t column) HWY_ATTR {
    auto value = scaled(d, hn::LoadU(d, x + number), scale + column, offset + column);
    if constexpr (has_residual) value = hn::Add(value, hn::LoadU(d, residual + number));
    if constexpr (activation == Activation::Relu) value = relu(d, value);
    hn::StoreU(value, d, y + number);
  });
}

void normalize(const Lines& lines, const float* x, const float* residual, const float* scale,
               const float* offset, Activation activation, float* y) {
  const bool is_relu = activation == Activation::Relu;
  const auto chosen =
      residual != nullptr
          ? (is_relu ? normalize_as<true, Activation::Relu> : normalize_as<true, Activation::None>)
          : (is_relu ? normalize_as<false, Activation::Relu>
                     : normalize_as<false, Activation::None>);
  chosen(lines, x, residual, scale, offset, y);
}

/// A NaN lets the gradient pass, as in libtorch.
template <Gate gate, bool joins = false, typename D>
HWY_INLINE Vector<D> passed(D d, const GradientSource& source, std::int64_t number,
                            std::int64_t column, Vector<D> x) {
  auto dy = hn::LoadU(d, source.dy + number);
  if constexpr (joins) dy = hn::Add(dy, hn::LoadU(d, source.more_dy + number));
  if constexpr (gate == Gate::Input) {
    const auto z = scaled(d, x, source.scale + column, source.offset + column);
    return hn::IfThenZeroElse(hn::Le(z, hn::Zero(d)), dy);
  } else if constexpr (gate == Gate::Output) {
    const auto y = hn::LoadU(d, source.y + number);
    return hn::IfThenZeroElse(hn::Le(y, hn::Zero(d)), dy);
  } else {
    return dy;
  }
}

template <Gate gate, bool writes, bool joins = false>
struct GradientTerms {
  GradientSource source;
  float* dz;

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t number, std::int64_t column, Vector<D>& first,
                             Vector<D>& second) const {
    const auto x = hn::LoadU(d, source.x + number);
    first = passed<gate, joins>(d, source, number, column, x);
    if constexpr (writes) hn::StoreU(first, d, dz + number);
    second = hn::Mul(first, hn::Sub(x, hn::LoadU(d, source.mean + column)));
  }
};

void sum_gradients(const Lines& lines, const GradientSource& source, Gate gate, float* dz,
                   double* sums) {
  if (source.more_dy != nullptr) {
    sum_lines(lines, GradientTerms<Gate::Output, true, true>{source, dz}, sums);
  } else if (gate == Gate::Open) {
    sum_lines(lines, GradientTerms<Gate::Open, false>{source, nullptr}, sums);
  } else if (gate == Gate::Input) {
    sum_lines(lines, GradientTerms<Gate::Input, false>{source, nullptr}, sums);
  } else if (dz == nullptr) {
    sum_lines(lines, GradientTerms<Gate::Output, false>{source, nullptr}, sums);
  } else {
    sum_lines(lines, GradientTerms<Gate::Output, true>{source, dz}, sums);
  }
}

template <Gate gate>
void input_gradient_as(const Lines& lines, const GradientSource& source, const float* slope,
                       const float* constant, float* dx) {
  for_numbers(lines, [&](auto d, std::int64_t number, std::int64_t column) HWY_ATTR {
    const auto x = hn::LoadU(d, source.x + number);
    const auto dz = passed<gate>(d, source, number, column, x);
    const auto centred = hn::Sub(x, hn::LoadU(d, source.mean + column));
    const auto scaled_dz = hn::Mul(dz, hn::LoadU(d, source.scale + column));
    hn::StoreU(hn::Add(scaled_dz, scaled(d, centred, slope + column, constant + column)), d,
               dx + number);
  });
}

void input_gradient(const Lines& lines, const GradientSource& source, Gate gate, const float* slope,
                    const float* constant, float* dx) {
  switch (gate) {
    case Gate::Open:
      return input_gradient_as<Gate::Open>(lines, source, slope, constant, dx);
    case Gate::Input:
      return input_gradient_as<Gate::Input>(lines, source, slope, constant, dx);
    case Gate::Output:
      return input_gradient_as<Gate::Output>(lines, source, slope, constant, dx);
  }
}

}  // namespace
}  // namespace lockstep::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {
namespace {

HWY_EXPORT(sum_values);
HWY_EXPORT(normalize);
HWY_EXPORT(sum_gradients);
HWY_EXPORT(input_gradient);

/// Rows in a line: as many as make lines that no vector of up to 16 numbers leaves a rest of, and
/// that are long enough. Lines of many channels are long as they are, and their rest is small.
std::int64_t rows_in_a_line(std::int64_t channels) {
  constexpr std::int64_t kLong = 64;
  constexpr std::int64_t kMany = 512;
  if (channels >= kMany) return 1;
  const auto even = 16 / std::gcd(channels, std::int64_t{16});
  const auto width = even * channels;
  return even * ((kLong + width - 1) / width);
}

std::int64_t divide_up(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

}  // namespace

namespace kernels {

Walk::Walk(std::int64_t rows, std::int64_t channel_count)
    : size(rows * channel_count),
      channels(channel_count),
      width(channel_count * rows_in_a_line(channel_count)) {
  // Short sums in f32 are exact enough, long blocks seldom need f64.
  block_lines = std::clamp<std::int64_t>(8192 / width / 4 * 4, 32, 128);
  // Enough chunks for many threads, but each worth one, and few enough that adding them is nothing.
  const auto wanted = std::max<std::int64_t>(size / 64, 65536);
  chunk_size = divide_up(wanted, block_lines * width) * block_lines * width;
  chunks = divide_up(size, chunk_size);
}

std::int64_t Walk::size_of(std::int64_t i) const {
  return std::min(chunk_size, size - begin(i));
}

void sum_values(const Lines& lines, const float* x, const float* shift, double* sums) {
  HWY_DYNAMIC_DISPATCH(sum_values)(lines, x, shift, sums);
}

void normalize(const Lines& lines, const float* x, const float* residual, const float* scale,
               const float* offset, Activation activation, float* y) {
  HWY_DYNAMIC_DISPATCH(normalize)(lines, x, residual, scale, offset, activation, y);
}

void sum_gradients(const Lines& lines, const GradientSource& source, Gate gate, float* dz,
                   double* sums) {
  HWY_DYNAMIC_DISPATCH(sum_gradients)(lines, source, gate, dz, sums);
}

void input_gradient(const Lines& lines, const GradientSource& source, Gate gate, const float* slope,
                    const float* constant, float* dx) {
  HWY_DYNAMIC_DISPATCH(input_gradient)(lines, source, gate, slope, constant, dx);
}

}  // namespace kernels
}  // namespace lockstep::nn
#endif  // HWY_ONCE
