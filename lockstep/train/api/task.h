#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep {

/// The named fields of some samples, as tensors [samples, …].
class LOCKSTEP_API Fields {
 public:
  void set(std::string name, at::Tensor tensor);

  /// Errors: `Options` for an unknown name, with the known names.
  const at::Tensor& operator[](std::string_view name) const;
  bool has(std::string_view name) const noexcept;
  /// The first field of the dataset.
  const at::Tensor& front() const;
  /// Returns some of the samples.
  Fields part(std::int64_t first, std::int64_t count) const;
  /// Returns the fields with one tensor replaced.
  Fields with(std::string_view name, at::Tensor tensor) const;
  /// Returns the results of `change` under the same names.
  Fields mapped(const std::function<at::Tensor(const at::Tensor&)>& change) const;
  /// Number of samples.
  std::int64_t size() const { return front().size(0); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
};

/// Returns the input of the model for a micro-batch.
using Input = std::function<at::Tensor(const Fields&)>;

/// The mean loss of a micro-batch, a tensor without dimensions: any function of outputs and fields.
/// The losses of this header can also compute several micro-batches at once.
class LOCKSTEP_API Loss {
 public:
  using Mean = std::function<at::Tensor(const at::Tensor& output, const Fields&)>;
  /// Returns [groups]: the means over equal parts of the samples, in order.
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
  /// As `Means`. Computes one part after another if the loss has no such function.
  at::Tensor of_groups(const at::Tensor& output, const Fields& fields, std::int64_t groups) const;

 private:
  Mean mean_;
  Means means_;
};

/// A number that is shown beside the loss: `scale` times its mean over the samples.
struct Metric {
  std::string name;
  /// Returns the sum over the samples of a micro-batch, a tensor without dimensions.
  std::function<at::Tensor(const at::Tensor& output, const Fields&)> sum;
  double scale = 1;
};

/// Uses one field unchanged.
LOCKSTEP_API Input input_field(std::string name);

/// For outputs [N, classes] or [N, classes, …] and a field of integers. With smoothing s, the share
/// s of the target is spread over all classes.
LOCKSTEP_API Loss cross_entropy(std::string field = "label", double smoothing = 0);
LOCKSTEP_API Loss mean_squared_error(std::string field);

/// "acc": percentage of outputs [N, classes], or [N, classes, …], that are largest at the class of
/// the field.
LOCKSTEP_API Metric accuracy(std::string field = "label");

/// The objective of a training. The default is the classification of images.
struct Task {
  /// Unset: the field "image"; without this field, the first one.
  Input input{};
  Loss loss = cross_entropy();
  Loss test_loss{};  ///< for evaluations; unset: the loss
  std::vector<Metric> metrics{accuracy()};
};

}  // namespace lockstep
