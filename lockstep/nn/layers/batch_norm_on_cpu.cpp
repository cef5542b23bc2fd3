#include <ATen/Parallel.h>
#include <torch/types.h>

#include "lockstep/nn/layers/batch_norm_group.h"
#include "lockstep/nn/layers/batch_norm_passes.h"

namespace lockstep::nn {
namespace {

void in_parallel(std::int64_t tasks, std::int64_t grain,
                 const std::function<void(std::int64_t, std::int64_t)>& work) {
  at::parallel_for(0, tasks, grain, work);
}

float* float_data(const at::Tensor& tensor, std::int64_t offset = 0) {
  return tensor.defined() ? tensor.data_ptr<float>() + offset : nullptr;
}

/// The groups of a batch, and where each finds what it was normalized with.
class Groups {
 public:
  Groups(const at::Tensor& rows, std::int64_t count)
      : count_(count), channels_(rows.size(1)), size_(rows.numel() / count) {}

  std::int64_t count() const { return count_; }
  batch_norm::Shape shape() const { return {size_ / channels_, channels_}; }
  /// Numbers before group `i`.
  std::int64_t begin(std::int64_t i) const { return i * size_; }

  at::Tensor make_normalizations(const at::Tensor& rows) const {
    return at::empty({count_, 4, channels_}, rows.options());
  }
  batch_norm::Normalization normalization(const at::Tensor& all, std::int64_t i) const {
    auto* begin = float_data(all, i * 4 * channels_);
    return {begin, begin + channels_, begin + 2 * channels_, begin + 3 * channels_};
  }

 private:
  std::int64_t count_;
  std::int64_t channels_;
  std::int64_t size_;
};

batch_norm::Parameters parameters_of(const BatchNormCall& call) {
  return {float_data(call.weight),      float_data(call.bias), float_data(call.running_mean),
          float_data(call.running_var), call.momentum,         call.epsilon};
}

/// A gradient for each group, then their sum in order: the same bits as groups that come one after
/// another and add up theirs.
at::Tensor sum_of_groups(const at::Tensor& gradients) {
  if (!gradients.defined()) return {};
  if (gradients.size(0) == 1) return gradients[0];
  auto sum = gradients[0].clone();
  for (std::int64_t i = 1; i < gradients.size(0); ++i) sum.add_(gradients[i]);
  return sum;
}

class CpuPasses final : public NormPasses {
 public:
  NormKept normalize(const NormInput& input, const BatchNormCall& call,
                     const at::Tensor& y) const override {
    const Groups groups(input.rows, call.groups);
    auto normalizations = groups.make_normalizations(input.rows);
    for (std::int64_t i = 0; i < groups.count(); ++i) {
      const auto normalization = groups.normalization(normalizations, i);
      const auto begin = groups.begin(i);
      batch_norm::take_statistics(groups.shape(), float_data(input.rows, begin),
                                  parameters_of(call), normalization, in_parallel);
      batch_norm::apply(groups.shape(), float_data(input.rows, begin),
                        float_data(input.residual, begin), normalization.scale,
                        normalization.offset, call.activation, float_data(y, begin), in_parallel);
    }
    call.num_batches_tracked.add_(call.groups);
    return {.normalizations = std::move(normalizations), .marks = {}};
  }

  void differentiate(const NormArriving& arriving, NormGradients& gradients) const override {
    const auto& x = arriving.x;
    const Groups groups(x, arriving.groups);
    const auto by_group = [&](bool is_wanted) {
      return is_wanted ? at::empty({arriving.groups, x.size(1)}, x.options()) : at::Tensor();
    };
    const auto weight = by_group(gradients.wants_weight);
    const auto bias = by_group(gradients.wants_bias);
    for (std::int64_t i = 0; i < arriving.groups; ++i) {
      const auto begin = groups.begin(i);
      const auto channel = i * x.size(1);
      batch_norm::backward(groups.shape(),
                           {float_data(arriving.dy, begin), float_data(arriving.more_dy, begin),
                            float_data(x, begin), float_data(arriving.y, begin), arriving.gate},
                           groups.normalization(arriving.kept.normalizations, i),
                           {float_data(gradients.x, begin), float_data(gradients.residual, begin),
                            float_data(weight, channel), float_data(bias, channel)},
                           in_parallel);
    }
    gradients.weight = sum_of_groups(weight);
    gradients.bias = sum_of_groups(bias);
  }

  void evaluate(const NormInput& input, const BatchNormCall& call,
                const at::Tensor& y) const override {
    const auto shape = Groups(input.rows, 1).shape();
    const auto scale_and_offset = at::empty({2, shape.channels}, input.rows.options());
    auto* scale = float_data(scale_and_offset);
    auto* offset = float_data(scale_and_offset, shape.channels);
    batch_norm::use_running_statistics(shape.channels, parameters_of(call), scale, offset);
    batch_norm::apply(shape, float_data(input.rows), float_data(input.residual), scale, offset,
                      call.activation, float_data(y), in_parallel);
  }
};

}  // namespace

const NormPasses& cpu_norm_passes() {
  static const CpuPasses passes;
  return passes;
}

}  // namespace lockstep::nn
