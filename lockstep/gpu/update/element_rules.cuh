#pragma once

#include "lockstep/gpu/update/update.h"

namespace lockstep::gpu {

// What an optimizer does with one element: line by line what `optimizer/update_kernels.cpp` does
// with it, in the same order of operations.

/// An element's number in each row.
struct Element {
  float weight;
  float first;  ///< state
  float second;
};

class PlainSgd {
 public:
  static constexpr int kStates = 0;

  __device__ PlainSgd(const UpdateConstants&, const Coefficients& by)
      : lr_(by.step_size), weight_decay_(by.weight_decay) {}

  /// The gradient is clipped already.
  __device__ Element operator()(float scaled, const Element& now) const {
    const float gradient = scaled + weight_decay_ * now.weight;
    return {now.weight - lr_ * gradient, 0, 0};
  }

 private:
  float lr_;
  float weight_decay_;
};

template <bool nesterov>
class MomentumSgd {
 public:
  static constexpr int kStates = 1;

  __device__ MomentumSgd(const UpdateConstants& rules, const Coefficients& by)
      : lr_(by.step_size), weight_decay_(by.weight_decay), momentum_(rules.momentum) {}

  __device__ Element operator()(float scaled, const Element& now) const {
    const float gradient = scaled + weight_decay_ * now.weight;
    const float momentum = momentum_ * now.first + gradient;
    const float direction = nesterov ? gradient + momentum_ * momentum : momentum;
    return {now.weight - lr_ * direction, momentum, 0};
  }

 private:
  float lr_;
  float weight_decay_;
  float momentum_;
};

struct Moments {
  float first;
  float second;
};

/// The two averages that Adam and its kin keep.
class MomentRule {
 public:
  __device__ MomentRule(const UpdateConstants& rules, const Coefficients& by)
      : beta1_(rules.beta1),
        rest1_(rules.rest1),
        beta2_(rules.beta2),
        rest2_(rules.rest2),
        epsilon_(rules.epsilon),
        root_bias2_(by.root_bias2) {}

  __device__ Moments next(const Element& now, float gradient) const {
    return {beta1_ * now.first + rest1_ * gradient,
            beta2_ * now.second + rest2_ * gradient * gradient};
  }

  __device__ float denominator(const Moments& moments) const {
    return sqrtf(moments.second) / root_bias2_ + epsilon_;
  }

 private:
  float beta1_;
  float rest1_;
  float beta2_;
  float rest2_;
  float epsilon_;
  float root_bias2_;
};

/// `decoupled`: AdamW, whose weight decay is none of the gradient's business.
template <bool decoupled>
class AdamRule {
 public:
  static constexpr int kStates = 2;

  __device__ AdamRule(const UpdateConstants& rules, const Coefficients& by)
      : moments_(rules, by),
        weight_decay_(by.weight_decay),
        shrink_(by.shrink),
        step_size_(by.step_size) {}

  __device__ Element operator()(float scaled, const Element& now) const {
    const float weight = decoupled ? now.weight * shrink_ : now.weight;
    const auto moments = moments_.next(now, decoupled ? scaled : scaled + weight_decay_ * weight);
    return {weight - step_size_ * moments.first / moments_.denominator(moments), moments.first,
            moments.second};
  }

 private:
  MomentRule moments_;
  float weight_decay_;
  float shrink_;
  float step_size_;
};

/// Its step size is the learning rate times the trust.
class LambRule {
 public:
  static constexpr int kStates = 2;

  __device__ LambRule(const UpdateConstants& rules, const Coefficients& by)
      : moments_(rules, by),
        weight_decay_(by.weight_decay),
        inverse_bias1_(by.inverse_bias1),
        step_size_(by.step_size) {}

  __device__ Element operator()(float scaled, const Element& now) const {
    const auto moments = moments_.next(now, scaled);
    return {now.weight - step_size_ * direction(now, moments), moments.first, moments.second};
  }

  __device__ float direction(float scaled, const Element& now) const {
    return direction(now, moments_.next(now, scaled));
  }

 private:
  __device__ float direction(const Element& now, const Moments& moments) const {
    return inverse_bias1_ * moments.first / moments_.denominator(moments) +
           weight_decay_ * now.weight;
  }

  MomentRule moments_;
  float weight_decay_;
  float inverse_bias1_;
  float step_size_;
};

/// Whether this step changes the tensor at all.
inline __device__ bool is_updated(const UpdateCall& call, const StepControl& control,
                                  std::int32_t tensor) {
  return control.skipped == 0 && call.changed[tensor] != 0;
}

inline __device__ const Coefficients& coefficients_of(const UpdateCall& call,
                                                      const StepControl& control,
                                                      std::int32_t parameter) {
  const std::int64_t row = coefficient_row(control.step, control.updates, call.skips);
  return call.coefficients[row * call.num_parameters + parameter];
}

}  // namespace lockstep::gpu
