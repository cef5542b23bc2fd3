#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif

namespace lockstep::optimizer {

/// The loss scale of the next step, and the number of steps since the scale last fell.
struct LossScale {
  double value = 1;  ///< a power of two
  std::int64_t good_steps = 0;
};

/// The rules that decide about a whole training step, from measured numbers: how much gradients are
/// clipped, when a step is skipped, how the loss scale changes, LAMB's trust ratios, and whether
/// weights are averaged. CPU and GPU call the same functions, so their decisions have the same
/// bits.
struct StepRules {
  double clip_norm = 0;           ///< largest norm of all gradients; 0: gradients are not clipped
  bool has_loss_scaling = false;  ///< a step with a number that is not finite is skipped
  bool has_trust_ratios = false;  ///< LAMB
  double average_decay = 0;       ///< 0: weights are not averaged
  std::int64_t steps_to_grow = 2000;  ///< steps without an overflow until the loss scale doubles
  double largest_scale = 0x1p24;

  LOCKSTEP_HOST_DEVICE bool clips() const { return clip_norm > 0; }
  LOCKSTEP_HOST_DEVICE bool averages() const { return average_decay > 0; }
  /// Whether gradients are measured before the update.
  LOCKSTEP_HOST_DEVICE bool measures_gradients() const { return clips() || has_loss_scaling; }

  /// A step is skipped if loss scaling finds a gradient or a loss that is not finite.
  LOCKSTEP_HOST_DEVICE bool skips(bool is_finite) const { return has_loss_scaling && !is_finite; }

  /// The factor that gradients are multiplied with, from the sum of their squares. Computes what
  /// `torch::nn::utils::clip_grad_norm_` computes. A norm that is not a number clips nothing.
  LOCKSTEP_HOST_DEVICE float clip_factor(double squares) const {
    if (!clips()) return 1;
    const double factor = clip_norm / (std::sqrt(squares) + 1e-6);
    return static_cast<float>(factor < 1.0 ? factor : 1.0);
  }

  /// A skipped step halves the scale, down to 1.
  LOCKSTEP_HOST_DEVICE LossScale next_scale(LossScale scale, bool is_skipped) const {
    if (!has_loss_scaling) return scale;
    if (is_skipped) return {scale.value / 2 > 1 ? scale.value / 2 : 1, 0};
    ++scale.good_steps;
    const bool grows = scale.good_steps % steps_to_grow == 0;
    if (grows) scale.value = scale.value * 2 < largest_scale ? scale.value * 2 : largest_scale;
    return scale;
  }

  /// LAMB's ratio for a parameter, from the sums of squares of its weights and of its direction; 1
  /// if one of them is zero.
  LOCKSTEP_HOST_DEVICE static double trust_ratio(double weights, double direction) {
    if (weights == 0 || direction == 0) return 1;
    return std::sqrt(weights) / std::sqrt(direction);
  }
};

}  // namespace lockstep::optimizer
