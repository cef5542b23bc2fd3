#include "lockstep/nn/layers/batch_norm_function.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/types.h>

#include <memory>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

using kernels::Activation;
using kernels::Gate;
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

const NormPasses& passes_for(const at::Tensor& rows) {
  return rows.is_cuda() ? gpu_norm_passes() : cpu_norm_passes();
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
  BatchNormBackward(const at::Tensor& rows, const BatchNormCall& call, NormKept kept, Gate gate)
      : x_(rows, /*is_output=*/false),
        weight_(call.weight.detach()),
        bias_(call.bias.detach()),
        kept_(std::move(kept)),
        epsilon_(call.epsilon),
        groups_(call.groups),
        gate_(gate) {}

  /// Where the output has to tell, once it knows this node.
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
    weight_.reset();
    bias_.reset();
    kept_ = {};
  }

 private:
  SavedVariable x_;
  SavedVariable y_;
  at::Tensor weight_;
  at::Tensor bias_;
  NormKept kept_;
  double epsilon_;
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
enum Input : std::size_t { kX, kWeight, kBias, kResidual };

variable_list BatchNormBackward::apply(variable_list&& arriving) {
  const std::lock_guard<std::mutex> lock(mutex_);
  refuse_second_derivative();
  ArrivedGradient dy(std::move(arriving[0]));
  ArrivedGradient more_dy(arriving.size() > 1 ? std::move(arriving[1]) : at::Tensor());
  if (!dy.rows.defined()) std::swap(dy, more_dy);
  if (!dy.rows.defined()) return variable_list(num_outputs());
  const auto x = x_.unpack();
  if (!kept_.normalizations.defined()) {
    throw std::runtime_error(torch::autograd::ERR_BACKWARD_TWICE);
  }
  const bool takes_y = gate_ == Gate::Output && !kept_.marks.defined();
  const auto y = takes_y ? y_.unpack(shared_from_this()) : at::Tensor();
  const auto wants = [&](std::size_t input) {
    return input < num_outputs() && task_should_compute_output(input);
  };
  if (more_dy.rows.defined() && !(gate_ == Gate::Output && wants(kResidual))) {
    dy = ArrivedGradient(dy.rows + more_dy.rows);
    more_dy = ArrivedGradient(at::Tensor());
  }
  NormGradients gradients{.wants_weight = wants(kWeight), .wants_bias = wants(kBias)};
  if (wants(kResidual)) gradients.residual = dy.take(x);
  if (wants(kX)) gradients.x = dy.is_free ? dy.take(x) : more_dy.take(x);
  passes_for(x).differentiate({.dy = dy.rows,
                               .more_dy = more_dy.rows,
                               .x = x,
                               .y = y,
                               .weight = weight_,
                               .bias = bias_,
                               .kept = kept_,
                               .epsilon = epsilon_,
                               .groups = groups_,
                               .gate = gate_},
                              gradients);
  variable_list leaving(num_outputs());
  leaving[kX] = gradients.x;
  leaving[kWeight] = gradients.weight;
  leaving[kBias] = gradients.bias;
  if (num_outputs() > kResidual) leaving[kResidual] = gradients.residual;
  return leaving;
}

Gate gate_of(const at::Tensor& residual, Activation activation) {
  if (activation == Activation::None) return Gate::Open;
  // Where nothing was added, the input tells where the ReLU let pass.
  return residual.defined() ? Gate::Output : Gate::Input;
}

void record(const at::Tensor& x, const at::Tensor& residual, const BatchNormCall& call,
            const at::Tensor& rows, NormKept kept, at::Tensor& y) {
  const auto gate = gate_of(residual, call.activation);
  const bool takes_y = gate == Gate::Output && !kept.marks.defined();
  const std::shared_ptr<BatchNormBackward> node(
      new BatchNormBackward(rows, call, std::move(kept), gate), torch::autograd::deleteNode);
  node->set_next_edges(
      residual.defined() ? torch::autograd::collect_next_edges(x, call.weight, call.bias, residual)
                         : torch::autograd::collect_next_edges(x, call.weight, call.bias));
  torch::autograd::set_history(y, node);
  if (takes_y) node->save_output(y);
}

}  // namespace

at::Tensor batch_norm_in_training(const at::Tensor& x, const at::Tensor& residual,
                                  const BatchNormCall& call) {
  const bool is_recorded =
      torch::autograd::compute_requires_grad(x, call.weight, call.bias, residual);
  const NormInput input{as_rows(x.detach()),
                        residual.defined() ? as_rows(residual.detach()) : residual};
  auto y = empty_rows_like(input.rows);
  auto kept = passes_for(x).normalize(input, call, y);
  if (is_recorded) record(x, residual, call, input.rows, std::move(kept), y);
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
  const NormInput input{as_rows(x), residual.defined() ? as_rows(residual) : residual};
  const auto y = empty_rows_like(input.rows);
  passes_for(x).evaluate(input, call, y);
  return y;
}

}  // namespace lockstep::nn
