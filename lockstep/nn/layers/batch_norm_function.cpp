#include "lockstep/nn/layers/batch_norm_function.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/types.h>

#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/batch_norm_group.h"

namespace lockstep::nn {
namespace {

using batch_norm::Activation;
using batch_norm::Gate;
using torch::autograd::SavedVariable;
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

/// A gradient for each group, then their sum in order: the same bits as groups that come one after
/// another and add up theirs.
at::Tensor sum_of_groups(const at::Tensor& gradients) {
  if (!gradients.defined()) return {};
  if (gradients.size(0) == 1) return gradients[0];
  auto sum = gradients[0].clone();
  for (std::int64_t i = 1; i < gradients.size(0); ++i) sum.add_(gradients[i]);
  return sum;
}

/// A gradient as rows, and whether its memory can be used for another: nobody else holds it.
struct ArrivedGradient {
  explicit ArrivedGradient(at::Tensor&& arrived) {
    const auto given = std::move(arrived);
    if (!given.defined()) return;
    const bool is_ours = given.use_count() == 1 && given.storage().use_count() == 1;
    rows = as_rows(given);
    // As rows it is a copy, or it is the gradient that arrived.
    is_free = is_ours || !rows.is_same(given);
  }

  /// Its memory, or new memory where somebody needs it, or where there is none.
  at::Tensor take(const at::Tensor& like) {
    const bool was_free = std::exchange(is_free, false);
    return was_free ? rows : empty_rows_like(like);
  }

  at::Tensor rows;
  bool is_free = false;
};

/// A node of its own rather than a `torch::autograd::Function`: only here is it known that nobody
/// else holds the gradient that arrives, so that its memory can be used for the one that leaves.
class BatchNormBackward : public torch::autograd::Node {
 public:
  BatchNormBackward(const at::Tensor& rows, at::Tensor normalizations, std::int64_t groups,
                    Gate gate)
      : x_(rows, /*is_output=*/false),
        normalizations_(std::move(normalizations)),
        groups_(groups),
        gate_(gate) {}

  /// For Gate::Output, once the output knows this node.
  void save_output(const at::Tensor& y) { y_ = SavedVariable(y, /*is_output=*/true); }

  /// Makes room for the gradient of a second user of the output, and returns its number.
  std::uint32_t add_user(const at::Tensor& y) { return add_input_metadata(y); }
  bool has_one_user() const { return num_inputs() == 1; }

  variable_list apply(variable_list&& arriving) override;
  std::string name() const override { return "lockstep::nn::BatchNormBackward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    x_.reset_data();
    y_.reset_data();
    normalizations_.reset();
  }

 private:
  void run(const at::Tensor& x, const ArrivedGradient& dy, const ArrivedGradient& more_dy,
           const at::Tensor& y, const std::array<at::Tensor, 4>& gradients) const;

  SavedVariable x_;
  SavedVariable y_;
  at::Tensor normalizations_;
  std::int64_t groups_;
  Gate gate_;
};

void refuse_second_derivative() {
  if (!at::GradMode::is_enabled()) return;
  throw Error(ErrorKind::Unavailable,
              "batch norm: gradients of gradients are asked for, and its kernels have none",
              "take gradients without create_graph, or run this layer in f64");
}

/// Inputs of the layer, in the order of the node's edges.
enum Input : std::size_t { kX, kWeight, kBias, kResidual, kInputs };

variable_list BatchNormBackward::apply(variable_list&& arriving) {
  const std::lock_guard<std::mutex> lock(mutex_);
  refuse_second_derivative();
  ArrivedGradient dy(std::move(arriving[0]));
  ArrivedGradient more_dy(arriving.size() > 1 ? std::move(arriving[1]) : at::Tensor());
  if (!dy.rows.defined()) std::swap(dy, more_dy);
  if (!dy.rows.defined()) return variable_list(num_outputs());
  const auto x = x_.unpack();
  const auto y = gate_ == Gate::Output ? y_.unpack(shared_from_this()) : at::Tensor();
  if (!normalizations_.defined()) throw std::runtime_error(torch::autograd::ERR_BACKWARD_TWICE);
  const auto wants = [&](std::size_t input) {
    return input < num_outputs() && task_should_compute_output(input);
  };
  if (more_dy.rows.defined() && !(gate_ == Gate::Output && wants(kResidual))) {
    dy = ArrivedGradient(dy.rows + more_dy.rows);
    more_dy = ArrivedGradient(at::Tensor());
  }
  std::array<at::Tensor, kInputs> gradients;
  if (wants(kResidual)) gradients[kResidual] = dy.take(x);
  if (wants(kX)) gradients[kX] = dy.is_free ? dy.take(x) : more_dy.take(x);
  for (const auto input : {kWeight, kBias}) {
    if (wants(input)) gradients[input] = at::empty({groups_, x.size(1)}, x.options());
  }
  run(x, dy, more_dy, y, gradients);
  for (const auto input : {kWeight, kBias}) gradients[input] = sum_of_groups(gradients[input]);
  return {gradients.begin(), gradients.begin() + num_outputs()};
}

void BatchNormBackward::run(const at::Tensor& x, const ArrivedGradient& dy,
                            const ArrivedGradient& more_dy, const at::Tensor& y,
                            const std::array<at::Tensor, 4>& gradients) const {
  const Groups groups(x, groups_);
  for (std::int64_t i = 0; i < groups_; ++i) {
    const auto begin = groups.begin(i);
    const auto channel = i * x.size(1);
    batch_norm::backward(groups.shape(),
                         {data_of(dy.rows, begin), data_of(more_dy.rows, begin), data_of(x, begin),
                          data_of(y, begin), gate_},
                         groups.normalization(normalizations_, i),
                         {data_of(gradients[kX], begin), data_of(gradients[kResidual], begin),
                          data_of(gradients[kWeight], channel), data_of(gradients[kBias], channel)},
                         in_parallel);
  }
}

Gate gate_of(const at::Tensor& residual, Activation activation) {
  if (activation == Activation::None) return Gate::Open;
  // Where nothing was added, the input tells where the ReLU let pass.
  return residual.defined() ? Gate::Output : Gate::Input;
}

void record(const at::Tensor& x, const at::Tensor& residual, const BatchNormCall& call,
            const at::Tensor& rows, const at::Tensor& normalizations, at::Tensor& y) {
  const auto gate = gate_of(residual, call.activation);
  const std::shared_ptr<BatchNormBackward> node(
      new BatchNormBackward(rows, normalizations, call.groups, gate), torch::autograd::deleteNode);
  node->set_next_edges(
      residual.defined() ? torch::autograd::collect_next_edges(x, call.weight, call.bias, residual)
                         : torch::autograd::collect_next_edges(x, call.weight, call.bias));
  torch::autograd::set_history(y, node);
  if (gate == Gate::Output) node->save_output(y);
}

}  // namespace

at::Tensor batch_norm_in_training(const at::Tensor& x, const at::Tensor& residual,
                                  const BatchNormCall& call) {
  const bool is_recorded =
      torch::autograd::compute_requires_grad(x, call.weight, call.bias, residual);
  const auto rows = as_rows(x.detach());
  const auto added = residual.defined() ? as_rows(residual.detach()) : residual;
  const Groups groups(rows, call.groups);
  const auto normalizations = groups.make_normalizations(rows);
  auto y = empty_rows_like(rows);
  for (std::int64_t i = 0; i < groups.count(); ++i) {
    const auto normalization = groups.normalization(normalizations, i);
    const auto begin = groups.begin(i);
    batch_norm::take_statistics(groups.shape(), data_of(rows, begin), parameters_of(call),
                                normalization, in_parallel);
    batch_norm::apply(groups.shape(), data_of(rows, begin), data_of(added, begin),
                      normalization.scale, normalization.offset, call.activation, data_of(y, begin),
                      in_parallel);
  }
  if (is_recorded) record(x, residual, call, rows, normalizations, y);
  return y;
}

at::Tensor for_second_user(const at::Tensor& y) {
  const auto node = std::dynamic_pointer_cast<BatchNormBackward>(y.grad_fn());
  if (!node || !node->has_one_user()) return y;
  const auto same = y.detach();  // and with it autograd's count of changes in place
  torch::autograd::impl::set_gradient_edge(same, {node, node->add_user(y)});
  return same;
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
