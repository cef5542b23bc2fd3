#pragma once

#include "lockstep/gpu/layers/batch_norm.h"
#include "lockstep/gpu/layers/norm_deal.h"

namespace lockstep::gpu {

// Calls as kernels see them.

/// Where a gradient passes the ReLU.
enum class NormGate : std::uint8_t {
  Open,    ///< there is no ReLU
  Input,   ///< where what x was normalized to is not <= 0
  Output,  ///< where y is not <= 0
  Marks,   ///< the same, by its marks
};

/// Whether a pass is told for each number, by a bit of it or by y.
constexpr bool reads_marks(NormGate gate) {
  return gate == NormGate::Output || gate == NormGate::Marks;
}

inline NormGate gate_of(const NormBackward& call) {
  if (call.activation == NormActivation::None) return NormGate::Open;
  if (call.marks != nullptr) return NormGate::Marks;
  return call.y == nullptr ? NormGate::Input : NormGate::Output;
}

template <typename T>
struct ForwardWork {
  ForwardWork(const NormForward& call, const Deal& how, float* variances)
      : deal(how),
        x(static_cast<const T*>(call.x)),
        residual(static_cast<const T*>(call.residual)),
        y(static_cast<T*>(call.y)),
        marks(call.marks),
        weight(call.parameters.weight),
        bias(call.parameters.bias),
        epsilon(call.parameters.epsilon),
        is_relu(call.activation == NormActivation::Relu),
        mean(call.statistics.mean),
        inverse_deviation(call.statistics.inverse_deviation),
        variance(variances) {}

  Deal deal;
  const T* x;
  const T* residual;
  T* y;
  std::uint8_t* marks;  ///< one for each packet of 16 bytes, or none
  const float* weight;
  const float* bias;
  float epsilon;
  bool is_relu;
  float* mean;  ///< this and the next two: [groups, channels]
  float* inverse_deviation;
  float* variance;
};

template <typename T>
struct BackwardWork {
  BackwardWork(const NormBackward& call, const Deal& how, float* weight_terms, float* bias_terms)
      : deal(how),
        x(static_cast<const T*>(call.x)),
        y(static_cast<const T*>(call.y)),
        marks(call.marks),
        dy(static_cast<const T*>(call.dy)),
        second_dy(static_cast<const T*>(call.second_dy)),
        dx(static_cast<T*>(call.dx)),
        residual_gradient(static_cast<T*>(call.residual_gradient)),
        weight(call.parameters.weight),
        bias(call.parameters.bias),
        mean(call.statistics.mean),
        inverse_deviation(call.statistics.inverse_deviation),
        weight_sums(weight_terms),
        bias_sums(bias_terms) {}

  Deal deal;
  const T* x;
  const T* y;
  const std::uint8_t* marks;
  const T* dy;
  const T* second_dy;
  T* dx;
  T* residual_gradient;
  const float* weight;
  const float* bias;
  const float* mean;  ///< this and all below: [groups, channels]
  const float* inverse_deviation;
  float* weight_sums;  ///< what each group adds to the gradients of the parameters
  float* bias_sums;
};

}  // namespace lockstep::gpu
