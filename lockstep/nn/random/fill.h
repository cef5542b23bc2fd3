#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "lockstep/base/random_stream.h"

namespace lockstep::nn {

/// What the weights called `name` are drawn from. By name, so that a network with one more layer
/// starts with the same weights in all others.
RandomStream weights_stream(std::uint64_t seed, std::string_view name) noexcept;

/// Element i in row-major order is drawn from word i of the stream: the same bits in any process,
/// on any machine, in any memory format.
void fill_normal(const at::Tensor& tensor, double deviation, const RandomStream& stream);
void fill_uniform(const at::Tensor& tensor, double bound, const RandomStream& stream);

}  // namespace lockstep::nn
