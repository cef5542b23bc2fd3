#include "lockstep/nn/layers/batch_norm_function.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/batch_norm_group.h"

namespace lockstep::nn {
namespace {

using batch_norm::Activation;
using batch_norm::Gate;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Channels of a number follow each other: rows of a matrix.
at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.contiguous(tensor.dim() == 4 ? at::MemoryFormat::ChannelsLast
                                             : at::MemoryFormat::Contiguous);
}

at::Tensor empty_rows_like(const at::Tensor& rows) {
  return at::empty_like(rows, rows.options(), at::MemoryFormat::Preserve);
}

void in_parallel(std::int64_t tasks, std::int64_t grain,
                 const std::function<void(std::int64_t, std::int64_t)>& work) {
  at::parallel_for(0, tasks, grain, work);
}

float* data_of(const at::Tensor& tensor, std::int64_t offset = 0) {
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
    auto* begin = data_of(all, i * 4 * channels_);
    return {begin, begin + channels_, begin + 2 * channels_, begin + 3 * channels_};
  }

 private:
  std::int64_t count_;
  std::int64_t channels_;
  std::int64_t size_;
};

batch_norm::Parameters parameters_of(const BatchNormCall& call) {
  return {data_of(call.weight),      data_of(call.bias), data_of(call.running_mean),
          data_of(call.running_var), call.momentum,      call.epsilon};
}

at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& residual,
                   const BatchNormCall& call) {
  const auto rows = as_rows(x);
  const auto added = residual.defined() ? as_rows(residual) : residual;
  const Groups groups(rows, call.groups);
  const auto normalizations = groups.make_normalizations(rows);
  const auto y = empty_rows_like(rows);
  for (std::int64_t i = 0; i < groups.count(); ++i) {
    const auto normalization = groups.normalization(normalizations, i);
    const auto begin = groups.begin(i);
    batch_norm::take_statistics(groups.shape(), data_of(rows, begin), parameters_of(call),
                                normalization, in_parallel);
    batch_norm::apply(groups.shape(), data_of(rows, begin), data_of(added, begin),
                      normalization.scale, normalization.offset, call.activation, data_of(y, begin),
                      in_parallel);
  }
  context->set_materialize_grads(false);
  context->saved_data["groups"] = call.groups;
  context->saved_data["relu"] = call.activation == Activation::Relu;
  // Where nothing was added, the input tells where the ReLU let pass.
  context->save_for_backward({rows, normalizations, added.defined() ? y : at::Tensor()});
  return y;
}

/// A gradient for each group, then their sum in order: the same bits as groups that come one after
/// another and add up theirs.
at::Tensor sum_of_groups(const at::Tensor& gradients) {
  if (!gradients.defined() || gradients.size(0) == 1) {
    return gradients.defined() ? gradients[0] : gradients;
  }
  auto sum = gradients[0].clone();
  for (std::int64_t i = 1; i < gradients.size(0); ++i) sum.add_(gradients[i]);
  return sum;
}

/// Which of the layer's inputs a gradient is wanted for.
struct Wanted {
  bool x;
  bool weight;
  bool bias;
  bool residual;
};

struct LayerGradients {
  at::Tensor x;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor residual;
};

Gate gate_of(bool is_relu, const at::Tensor& y) {
  if (!is_relu) return Gate::Open;
  return y.defined() ? Gate::Output : Gate::Input;
}

void refuse_second_derivative() {
  if (!at::GradMode::is_enabled()) return;
  throw Error(ErrorKind::Unavailable,
              "batch norm: gradients of gradients are asked for, and its kernels have none",
              "take gradients without create_graph, or run this layer in f64");
}

LayerGradients backward(AutogradContext* context, const at::Tensor& arriving,
                        const Wanted& wanted) {
  refuse_second_derivative();
  if (!arriving.defined()) return {};
  const auto saved = context->get_saved_variables();
  const auto& x = saved[0];
  const auto& y = saved[2];
  const auto dy = as_rows(arriving);
  const Groups groups(x, context->saved_data["groups"].toInt());
  const auto gate = gate_of(context->saved_data["relu"].toBool(), y);
  const auto per_channel = [&](bool is_wanted) {
    return is_wanted ? at::empty({groups.count(), x.size(1)}, x.options()) : at::Tensor();
  };
  const LayerGradients all{wanted.x ? empty_rows_like(x) : at::Tensor(), per_channel(wanted.weight),
                           per_channel(wanted.bias),
                           wanted.residual ? empty_rows_like(x) : at::Tensor()};
  for (std::int64_t i = 0; i < groups.count(); ++i) {
    const auto begin = groups.begin(i);
    const auto channel = i * x.size(1);
    batch_norm::backward(groups.shape(),
                         {data_of(dy, begin), data_of(x, begin), data_of(y, begin), gate},
                         groups.normalization(saved[1], i),
                         {data_of(all.x, begin), data_of(all.residual, begin),
                          data_of(all.weight, channel), data_of(all.bias, channel)},
                         in_parallel);
  }
  return {all.x, sum_of_groups(all.weight), sum_of_groups(all.bias), all.residual};
}

/// Two functions, because an undefined tensor may not be an input of one.
struct Normalize : torch::autograd::Function<Normalize> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*weight*/, const at::Tensor& /*bias*/,
                            const BatchNormCall& call) {
    return nn::forward(context, x, {}, call);
  }
  static variable_list backward(AutogradContext* context, const variable_list& arriving) {
    const auto found = nn::backward(context, arriving[0],
                                    {context->needs_input_grad(0), context->needs_input_grad(1),
                                     context->needs_input_grad(2), false});
    return {found.x, found.weight, found.bias, {}};
  }
};

struct NormalizeAndAdd : torch::autograd::Function<NormalizeAndAdd> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*weight*/, const at::Tensor& /*bias*/,
                            const at::Tensor& residual, const BatchNormCall& call) {
    return nn::forward(context, x, residual, call);
  }
  static variable_list backward(AutogradContext* context, const variable_list& arriving) {
    const auto found = nn::backward(context, arriving[0],
                                    {context->needs_input_grad(0), context->needs_input_grad(1),
                                     context->needs_input_grad(2), context->needs_input_grad(3)});
    return {found.x, found.weight, found.bias, found.residual, {}};
  }
};

}  // namespace

at::Tensor batch_norm_in_training(const at::Tensor& x, const at::Tensor& residual,
                                  const BatchNormCall& call) {
  if (!residual.defined()) return Normalize::apply(x, call.weight, call.bias, call);
  return NormalizeAndAdd::apply(x, call.weight, call.bias, residual, call);
}

at::Tensor batch_norm_in_evaluation(const at::Tensor& x, const at::Tensor& residual,
                                    const BatchNormCall& call) {
  const auto rows = as_rows(x);
  const auto added = residual.defined() ? as_rows(residual) : residual;
  const auto y = empty_rows_like(rows);
  const auto shape = Groups(rows, 1).shape();
  const auto scale_and_offset = at::empty({2, shape.channels}, rows.options());
  auto* scale = data_of(scale_and_offset);
  auto* offset = data_of(scale_and_offset, shape.channels);
  batch_norm::use_running_statistics(shape.channels, parameters_of(call), scale, offset);
  batch_norm::apply(shape, data_of(rows), data_of(added), scale, offset, call.activation,
                    data_of(y), in_parallel);
  return y;
}

}  // namespace lockstep::nn
