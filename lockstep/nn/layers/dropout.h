#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::nn {

/// What a dropout layer keeps or drops as one.
enum class DropUnit {
  Element,
  Channel,  ///< a channel of a sample: `torch::nn::Dropout2d` and its like
  Sample,   ///< a whole sample: stochastic depth, for a branch that is added to another
};

/// What stands in place of what is dropped, and how the rest makes up for it.
enum class DropFill {
  Zero,   ///< what is kept grows by 1 / (1 - p): the mean stays
  Alpha,  ///< SELU's lowest value; all is then scaled so that mean and variance stay
};

struct DropoutOptions {
  double p = 0.5;  ///< probability to drop, in [0, 1]
  DropUnit unit = DropUnit::Element;
  DropFill fill = DropFill::Zero;
};

/// Dropout that draws for the current `RandomScope`: by seed, step, replica, micro-batch, block and
/// call. Unit number i in row-major order is kept or dropped by word i of its stream, so memory
/// format, threads and device do not matter.
///
/// In evaluation mode, and with p = 0, it hands its input on.
///
/// Errors: `Options` for p outside of [0, 1], or an input without the dimension of its unit.
class LOCKSTEP_API DropoutImpl : public torch::nn::Cloneable<DropoutImpl> {
 public:
  explicit DropoutImpl(const DropoutOptions& options = {});
  explicit DropoutImpl(double p) : DropoutImpl(DropoutOptions{.p = p}) {}

  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  at::Tensor forward(const at::Tensor& input);

 private:
  DropoutOptions options_;
};
TORCH_MODULE(Dropout);

inline Dropout channel_dropout(double p) {
  return Dropout(DropoutOptions{.p = p, .unit = DropUnit::Channel});
}
inline Dropout alpha_dropout(double p) {
  return Dropout(DropoutOptions{.p = p, .fill = DropFill::Alpha});
}
inline Dropout feature_alpha_dropout(double p) {
  return Dropout(DropoutOptions{.p = p, .unit = DropUnit::Channel, .fill = DropFill::Alpha});
}
inline Dropout stochastic_depth(double p) {
  return Dropout(DropoutOptions{.p = p, .unit = DropUnit::Sample});
}

}  // namespace lockstep::nn
