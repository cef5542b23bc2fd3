#include "lockstep/optimizer/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// In the order of the enumeration, so that a kind is the place of its name.
constexpr std::array<std::string_view, 5> kOptimizerNames{"SGD", "Adam", "AdamW", "LAMB", "custom"};

constexpr std::string_view name_of(OptimizerKind kind) {
  return kOptimizerNames[static_cast<std::size_t>(kind)];
}

template <typename Found>
[[noreturn]] void refuse(std::string_view where, std::string_view expected, const Found& found,
                         std::string hint = {}) {
  throw Error(ErrorKind::Options, fmt::format("{}: expected {}, found {}", where, expected, found),
              std::move(hint));
}

// Comparisons are such that a NaN is refused too.

void check_rate(std::string_view where, double lr) {
  if (!(lr >= 0) || std::isinf(lr)) refuse(where, "a learning rate of 0 or more", lr);
}

void check_weight_decay(std::string_view where, double weight_decay) {
  if (!(weight_decay >= 0) || std::isinf(weight_decay)) {
    refuse(where, "a weight decay of 0 or more", weight_decay,
           weight_decay < 0 ? "it is subtracted as it is: leave out the sign" : "");
  }
}

void check_share(std::string_view where, std::string_view what, double share) {
  if (!(share >= 0 && share < 1)) {
    refuse(where, fmt::format("{} from 0 to below 1", what), share);
  }
}

void check_adam(std::string_view where, const AdamOptions& options) {
  check_rate(where, options.lr);
  check_share(where, "a beta1", options.beta1);
  check_share(where, "a beta2", options.beta2);
  if (!(options.epsilon > 0) || std::isinf(options.epsilon)) {
    refuse(where, "an epsilon above 0", options.epsilon, "1e-8 is usual");
  }
  check_weight_decay(where, options.weight_decay);
}

}  // namespace

std::string_view Optimizer::name() const noexcept {
  return name_of(kind_);
}

int Optimizer::num_states() const noexcept {
  switch (kind_) {
    case OptimizerKind::Sgd:
      return sgd_.momentum == 0 ? 0 : 1;
    case OptimizerKind::Adam:
    case OptimizerKind::AdamW:
    case OptimizerKind::Lamb:
      return 2;
    case OptimizerKind::Custom:
      return custom_.num_states;
  }
  return 0;
}

Optimizer& Optimizer::group(ParameterGroup group) {
  if (group.names.empty()) {
    refuse(name(), "a group with names of parameters", "none", R"(.names = {"head.*"})");
  }
  const auto where = fmt::format("{}: group '{}'", name(), fmt::join(group.names, ", "));
  if (group.lr) check_rate(where, *group.lr);
  if (group.weight_decay) check_weight_decay(where, *group.weight_decay);
  groups_.push_back(std::move(group));
  return *this;
}

Optimizer& Optimizer::decay(DecayOf which) noexcept {
  decay_of_ = which;
  return *this;
}

Optimizer& Optimizer::clip_norm(double norm) {
  if (!(norm > 0) || std::isinf(norm)) {
    refuse(name(), "a norm above 0 to clip to", norm,
           "leave clip_norm out where nothing is clipped");
  }
  clip_norm_ = norm;
  return *this;
}

Optimizer& Optimizer::average_weights(double decay) {
  if (!(decay > 0 && decay < 1)) {
    refuse(name(), "a decay of averaged weights between 0 and 1", decay,
           "0.999 averages over about a thousand steps");
  }
  average_decay_ = decay;
  return *this;
}

Optimizer SGD(const SgdOptions& options) {
  const auto where = name_of(OptimizerKind::Sgd);
  check_rate(where, options.lr);
  check_share(where, "a momentum", options.momentum);
  check_weight_decay(where, options.weight_decay);
  if (options.nesterov && options.momentum == 0) {
    refuse(where, "a momentum above 0 with nesterov", options.momentum, ".momentum = 0.9");
  }
  Optimizer optimizer;
  optimizer.kind_ = OptimizerKind::Sgd;
  optimizer.lr_ = options.lr;
  optimizer.weight_decay_ = options.weight_decay;
  optimizer.sgd_ = options;
  return optimizer;
}

Optimizer Adam(const AdamOptions& options) {
  check_adam(name_of(OptimizerKind::Adam), options);
  Optimizer optimizer;
  optimizer.kind_ = OptimizerKind::Adam;
  optimizer.lr_ = options.lr;
  optimizer.weight_decay_ = options.weight_decay;
  optimizer.adam_ = options;
  return optimizer;
}

Optimizer AdamW(const AdamOptions& options) {
  check_adam(name_of(OptimizerKind::AdamW), options);
  auto optimizer = Adam(options);
  optimizer.kind_ = OptimizerKind::AdamW;
  return optimizer;
}

Optimizer LAMB(const AdamOptions& options) {
  check_adam(name_of(OptimizerKind::Lamb), options);
  auto optimizer = Adam(options);
  optimizer.kind_ = OptimizerKind::Lamb;
  return optimizer;
}

Optimizer custom_optimizer(CustomOptions options) {
  const auto where = name_of(OptimizerKind::Custom);
  check_rate(where, options.lr);
  check_weight_decay(where, options.weight_decay);
  if (options.num_states < 0 || options.num_states > 2) {
    refuse(where, "0, 1 or 2 states", options.num_states);
  }
  if (!options.update) {
    refuse(where, "an update function", "none",
           ".update = [](const Slice& slice, const UpdateFacts& facts) { ... }");
  }
  Optimizer optimizer;
  optimizer.kind_ = OptimizerKind::Custom;
  optimizer.lr_ = options.lr;
  optimizer.weight_decay_ = options.weight_decay;
  optimizer.custom_ = std::move(options);
  return optimizer;
}

}  // namespace lockstep
