#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/train/api/fields.h"

namespace lockstep {

/// What a model is called with, of a micro-batch.
using Input = std::function<at::Tensor(const Fields&)>;

/// The mean loss of a micro-batch, of no dimensions: any function of outputs and fields. Those that
/// are made here also know how to take several micro-batches at once.
class LOCKSTEP_API Loss {
 public:
  using Mean = std::function<at::Tensor(const at::Tensor& output, const Fields&)>;
  /// [groups]: the means of equal parts of the samples, in order.
  using Means =
      std::function<at::Tensor(const at::Tensor& output, const Fields&, std::int64_t groups)>;

  Loss() = default;
  template <std::invocable<const at::Tensor&, const Fields&> Function>
  Loss(Function mean) : mean_(std::move(mean)) {}
  Loss(Mean mean, Means means) : mean_(std::move(mean)), means_(std::move(means)) {}

  explicit operator bool() const noexcept { return static_cast<bool>(mean_); }
  at::Tensor operator()(const at::Tensor& output, const Fields& fields) const {
    return mean_(output, fields);
  }
  /// Part by part, where nothing better is known.
  at::Tensor of_groups(const at::Tensor& output, const Fields& fields, std::int64_t groups) const;

 private:
  Mean mean_;
  Means means_;
};

/// A number that is shown beside the loss: `scale` times its sum over samples, divided by their
/// number.
struct Metric {
  std::string name;
  /// The sum over the samples of a micro-batch, of no dimensions.
  std::function<at::Tensor(const at::Tensor& output, const Fields&)> sum;
  double scale = 1;
};

/// One field as it is.
LOCKSTEP_API Input input_field(std::string name);

/// For outputs [N, classes] or [N, classes, …] and whole numbers in a field; with smoothing s, the
/// share s of the truth is spread over all classes.
LOCKSTEP_API Loss cross_entropy(std::string field = "label", double smoothing = 0);
LOCKSTEP_API Loss mean_squared_error(std::string field);

/// How many outputs [N, classes], or [N, classes, …], are largest at the class of the field, in
/// percent: "acc".
LOCKSTEP_API Metric accuracy(std::string field = "label");

/// What is to be learned. The defaults are those of telling pictures apart.
struct Task {
  /// Unset: the field "image", or the first one where there is none.
  Input input{};
  Loss loss = cross_entropy();
  Loss test_loss{};  ///< what an evaluation computes; unset: the loss
  std::vector<Metric> metrics{accuracy()};
};

}  // namespace lockstep
