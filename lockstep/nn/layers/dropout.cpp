#include "lockstep/nn/layers/dropout.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/gpu/layers/draw_mask.h"
#include "lockstep/nn/gpu_stream.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::nn {
namespace {

// -scale * alpha of SELU (Klambauer et al.): what a unit tends to as its input falls.
constexpr double kAlphaFill = -1.7580993408473766;

std::int64_t dimensions_of(DropUnit unit) {
  switch (unit) {
    case DropUnit::Element:
      return 0;
    case DropUnit::Channel:
      return 2;
    case DropUnit::Sample:
      return 1;
  }
  throw Error(ErrorKind::Bug, "dropout: a unit without a name");
}

/// One entry per unit, shaped so that it spreads over the input.
std::vector<std::int64_t> mask_shape(const at::Tensor& input, DropUnit unit) {
  auto shape = input.sizes().vec();
  const auto kept_dimensions = dimensions_of(unit);
  if (input.dim() < kept_dimensions) {
    throw Error(ErrorKind::Options,
                fmt::format("dropout: expected at least {} dimensions to drop whole {}, found {}",
                            kept_dimensions, unit == DropUnit::Channel ? "channels" : "samples",
                            input.dim()),
                "drop single elements instead: DropUnit::Element");
  }
  if (unit != DropUnit::Element) std::fill(shape.begin() + kept_dimensions, shape.end(), 1);
  return shape;
}

/// A unit is dropped if its word is below p * 2^32, exactly: p = 1 drops all.
std::uint64_t limit_of(double p) {
  return static_cast<std::uint64_t>(std::ldexp(p, 32));
}

/// 1 where a unit is kept, else 0, by its number in row-major order.
void draw(const RandomStream& stream, double p, float* mask, std::int64_t units) {
  const auto limit = limit_of(p);
  at::parallel_for(0, (units + 3) / 4, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (auto group = begin; group < end; ++group) {
      const auto words = stream.words(static_cast<std::uint64_t>(group));
      const auto first = group * 4;
      const auto count = std::min<std::int64_t>(4, units - first);
      for (std::int64_t i = 0; i < count; ++i) mask[first + i] = words[i] < limit ? 0.0F : 1.0F;
    }
  });
}

/// Of several micro-batches, where the input is.
at::Tensor draw_grouped_mask(const at::Tensor& input, const DropoutOptions& options,
                             RandomScope& scope) {
  const auto mask = at::empty(mask_shape(input, options.unit), input.options());
  gpu::draw_mask({.keys = *scope.groups(),
                  .place = scope.next_place(),
                  .limit = limit_of(options.p),
                  .units = mask.numel() / scope.groups()->groups,
                  .type = data_type_of(input.scalar_type()),
                  .mask = mask.data_ptr()},
                 gpu_stream_of(input));
  return options.unit == DropUnit::Element ? mask.contiguous(input.suggest_memory_format()) : mask;
}

at::Tensor draw_mask(const at::Tensor& input, const DropoutOptions& options) {
  auto* const scope = RandomScope::current();
  if (scope != nullptr && scope->groups() != nullptr)
    return draw_grouped_mask(input, options, *scope);
  const auto mask = at::empty(mask_shape(input, options.unit), at::kFloat);
  draw(next_random_stream(), options.p, mask.data_ptr<float>(), mask.numel());
  const auto placed = mask.to(input.device(), input.scalar_type());
  return options.unit == DropUnit::Element ? placed.contiguous(input.suggest_memory_format())
                                           : placed;
}

}  // namespace

DropoutImpl::DropoutImpl(const DropoutOptions& options) : options_(options) {
  if (!(options.p >= 0 && options.p <= 1)) {
    throw Error(
        ErrorKind::Options,
        fmt::format("dropout: expected a probability between 0 and 1, found {}", options.p));
  }
}

void DropoutImpl::pretty_print(std::ostream& stream) const {
  stream << "lockstep::nn::Dropout(p=" << options_.p << ")";
}

at::Tensor DropoutImpl::forward(const at::Tensor& input) {
  if (!is_training() || options_.p == 0 || input.numel() == 0) return input;
  const auto mask = draw_mask(input, options_);
  const auto p = options_.p;
  if (options_.fill == DropFill::Zero) {
    return p == 1 ? input * mask : input * (mask / (1 - p));
  }
  if (p == 1) return input * mask;  // as libtorch: nothing is left whose variance could stay
  const auto scale = 1 / std::sqrt((1 - p) * (1 + p * kAlphaFill * kAlphaFill));
  const auto shift = (1 - mask) * (kAlphaFill * scale) - kAlphaFill * scale * p;
  return input * (mask * scale) + shift;
}

}  // namespace lockstep::nn
