#include "lockstep/nn/random/fill.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>

#include "lockstep/base/fnv.h"
#include "lockstep/nn/random/normal_quantile.h"

namespace lockstep::nn {
namespace {

/// A word as a number in the middle of one of 2^32 equal parts of (0, 1).
double middle(std::uint32_t word) noexcept {
  return (word + 0.5) * 0x1.0p-32;
}

template <typename Draw>
void fill(const at::Tensor& tensor, const RandomStream& stream, const Draw& draw) {
  const auto values = at::empty(tensor.sizes(), at::kFloat);
  auto* const out = values.data_ptr<float>();
  const auto count = values.numel();
  at::parallel_for(0, (count + 3) / 4, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (auto group = begin; group < end; ++group) {
      const auto words = stream.words(static_cast<std::uint64_t>(group));
      const auto here = std::min<std::int64_t>(4, count - group * 4);
      for (std::int64_t i = 0; i < here; ++i) {
        out[group * 4 + i] = static_cast<float>(draw(middle(words[i])));
      }
    }
  });
  const torch::NoGradGuard no_grad;
  tensor.copy_(values);
}

}  // namespace

RandomStream weights_stream(std::uint64_t seed, std::string_view name) noexcept {
  constexpr std::uint64_t kForWeights = ~std::uint64_t{0};
  return stream_of(seed, kForWeights, Fnv().add(name).value());
}

void fill_normal(const at::Tensor& tensor, double deviation, const RandomStream& stream) {
  fill(tensor, stream, [deviation](double p) { return deviation * normal_quantile(p); });
}

void fill_uniform(const at::Tensor& tensor, double bound, const RandomStream& stream) {
  fill(tensor, stream, [bound](double p) { return bound * (2 * p - 1); });
}

}  // namespace lockstep::nn
