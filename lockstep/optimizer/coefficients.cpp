#include "lockstep/optimizer/coefficients.h"

#include <cmath>

namespace lockstep::optimizer {

Rows rows_of(const Slice& slice) {
  return {.gradient = slice.gradient.data(),
          .weights = slice.weights.data(),
          .next_weights = slice.next_weights.data(),
          .first = slice.state[0].data(),
          .second = slice.state[1].data(),
          .next_first = slice.next_state[0].data(),
          .next_second = slice.next_state[1].data(),
          .count = slice.weights.size()};
}

SgdCoefficients sgd_coefficients(const SgdOptions& options, const UpdateFacts& facts,
                                 float gradient_scale) {
  return {.gradient_scale = gradient_scale,
          .weight_decay = static_cast<float>(facts.weight_decay),
          .momentum = static_cast<float>(options.momentum),
          .lr = static_cast<float>(facts.lr)};
}

AdamCoefficients adam_coefficients(const AdamOptions& options, const UpdateFacts& facts,
                                   float gradient_scale) {
  const auto count = static_cast<double>(facts.count);
  const auto bias1 = 1 - std::pow(options.beta1, count);
  const auto bias2 = 1 - std::pow(options.beta2, count);
  return {.gradient_scale = gradient_scale,
          .beta1 = static_cast<float>(options.beta1),
          .rest1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rest2 = static_cast<float>(1 - options.beta2),
          .root_bias2 = static_cast<float>(std::sqrt(bias2)),
          .epsilon = static_cast<float>(options.epsilon),
          .weight_decay = static_cast<float>(facts.weight_decay),
          .shrink = static_cast<float>(1 - facts.lr * facts.weight_decay),
          .inverse_bias1 = static_cast<float>(1 / bias1),
          .step_size = static_cast<float>(facts.lr / bias1)};
}

AdamCoefficients lamb_coefficients(const AdamOptions& options, const UpdateFacts& facts,
                                   float gradient_scale, double trust) {
  auto coefficients = adam_coefficients(options, facts, gradient_scale);
  coefficients.step_size = static_cast<float>(facts.lr * trust);
  return coefficients;
}

}  // namespace lockstep::optimizer
