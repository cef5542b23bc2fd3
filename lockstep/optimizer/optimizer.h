#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep {

/// Neighbouring elements of one parameter, and all that it takes to compute their next values.
///
/// Slices move with the number of instances: what is computed for an element may depend on that
/// element and on the numbers of `UpdateFacts` alone.
struct Slice {
  std::span<const float> gradient{};  ///< over all replicas: divided, unscaled and clipped
  std::span<const float> weights{};
  std::span<float> next_weights{};
  /// What the optimizer keeps for each element; zero before the first step.
  std::array<std::span<const float>, 2> state{};
  std::array<std::span<float>, 2> next_state{};
};

/// What is the same for a whole parameter in one step.
struct UpdateFacts {
  std::string_view parameter{};
  double lr = 0;            ///< by group and schedule
  double weight_decay = 0;  ///< by group
  std::int64_t count = 1;   ///< updates with this one
};

/// Writes `next_weights` and `next_state` of a slice, all elements of them.
using UpdateSlice = std::function<void(const Slice&, const UpdateFacts&)>;

struct SgdOptions {
  double lr = 0.1;
  double momentum = 0;
  double weight_decay = 0;  ///< added to the gradient
  bool nesterov = false;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< Adam: added to the gradient; AdamW and LAMB: apart from it
};

struct CustomOptions {
  double lr = 1e-3;
  double weight_decay = 0;
  int num_states = 0;  ///< numbers kept for each element: 0, 1 or 2
  UpdateSlice update{};
};

enum class OptimizerKind : std::uint8_t { Sgd, Adam, AdamW, Lamb, Custom };

/// Some parameters that are treated in another way. The first group that fits counts.
struct ParameterGroup {
  /// Names of parameters; a `*` stands for any text, as in "layer1.*" or "*.bias".
  std::vector<std::string> names{};
  std::optional<double> lr{};
  std::optional<double> weight_decay{};
  bool frozen = false;  ///< they stay as they are
};

enum class DecayOf : std::uint8_t {
  All,
  Matrices,  ///< not of parameters with fewer than two dimensions: norms and biases
};

/// How gradients become new weights: a value, made by `SGD`, `Adam`, `AdamW`, `LAMB` or
/// `custom_optimizer`.
///
///     auto optimizer = AdamW({.lr = 1e-3, .weight_decay = 0.05}).decay(DecayOf::Matrices)
///                          .group({.names = {"head.*"}, .lr = 1e-2}).clip_norm(1.0);
///
/// Errors: `Options` for numbers that cannot be meant.
class LOCKSTEP_API Optimizer {
 public:
  OptimizerKind kind() const noexcept { return kind_; }
  std::string_view name() const noexcept;
  int num_states() const noexcept;
  double lr() const noexcept { return lr_; }
  double weight_decay() const noexcept { return weight_decay_; }

  Optimizer& group(ParameterGroup group);
  Optimizer& decay(DecayOf which) noexcept;
  /// Gradients whose norm over all parameters is larger are scaled down to it.
  Optimizer& clip_norm(double norm);
  /// Keeps an average of the weights: `decay` of itself and 1 - decay of each step's.
  Optimizer& average_weights(double decay);

  const std::vector<ParameterGroup>& groups() const noexcept { return groups_; }
  DecayOf decay() const noexcept { return decay_of_; }
  std::optional<double> clip_norm() const noexcept { return clip_norm_; }
  std::optional<double> average_decay() const noexcept { return average_decay_; }
  const SgdOptions& sgd() const noexcept { return sgd_; }
  const AdamOptions& adam() const noexcept { return adam_; }
  const CustomOptions& custom() const noexcept { return custom_; }

 private:
  friend Optimizer SGD(const SgdOptions& options);
  friend Optimizer Adam(const AdamOptions& options);
  friend Optimizer AdamW(const AdamOptions& options);
  friend Optimizer LAMB(const AdamOptions& options);
  friend Optimizer custom_optimizer(CustomOptions options);
  Optimizer() = default;

  OptimizerKind kind_ = OptimizerKind::Sgd;
  double lr_ = 0;
  double weight_decay_ = 0;
  SgdOptions sgd_;
  AdamOptions adam_;
  CustomOptions custom_;
  std::vector<ParameterGroup> groups_;
  DecayOf decay_of_ = DecayOf::All;
  std::optional<double> clip_norm_;
  std::optional<double> average_decay_;
};

/// As `torch::optim::SGD`, without dampening.
LOCKSTEP_API Optimizer SGD(const SgdOptions& options = {});
/// As `torch::optim::Adam`, without amsgrad.
LOCKSTEP_API Optimizer Adam(const AdamOptions& options = {});
/// As `torch::optim::AdamW`, without amsgrad; its weight decay is 0 unless you say one.
LOCKSTEP_API Optimizer AdamW(const AdamOptions& options = {});
/// You et al., "Large batch optimization for deep learning": AdamW's direction, as long as the
/// parameter itself (a ratio of 1 where either norm is zero).
LOCKSTEP_API Optimizer LAMB(const AdamOptions& options = {});
/// One of your own.
LOCKSTEP_API Optimizer custom_optimizer(CustomOptions options);

}  // namespace lockstep
