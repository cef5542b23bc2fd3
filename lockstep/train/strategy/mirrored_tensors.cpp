#include "lockstep/train/strategy/mirrored_tensors.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <span>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/nn/scalar_types.h"
#include "lockstep/train/backends/replica.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {
namespace {

/// The leaves have no losses and metrics.
LeafTotals totals_of(const WeightLayout& layout) {
  return {layout, /*replicas=*/0, /*metrics=*/0};
}

std::span<float> totals_in(const at::Tensor& leaf, const LeafTotals& totals) {
  const std::span all(leaf.data_ptr<float>(), static_cast<std::size_t>(leaf.numel()));
  return all.last(totals.count());
}

}  // namespace

MirroredTensors::MirroredTensors(std::shared_ptr<ReplicaGroup> group, std::vector<Source> sources)
    : group_(std::move(group)), sources_(std::move(sources)) {
  for (const auto& source : sources_) replicas_.push_back(nn::slots_of(source()));
  layout_ = lay_out_weights(replicas_.front(), SGD());
  share_first_values();
  attach();
}

at::Tensor MirroredTensors::view(const at::Tensor& flat, const PlacedTensor& placed) const {
  return flat.as_strided(placed.sizes, placed.strides, placed.first);
}

/// Broadcasts the values of the first replica of instance 0.
void MirroredTensors::share_first_values() {
  const torch::NoGradGuard no_grad;
  const auto& first = replicas_.front();
  values_ = at::zeros({layout_.num_elements}, at::kFloat);
  const auto take = [&](const PlacedTensor& placed) {
    view(values_, placed).copy_(first[placed.slot].tensor());
  };
  for (const auto& parameter : layout_.parameters) take(parameter);
  for (const auto& buffer : layout_.buffers) take(buffer);
  share(values_);
  for (const auto& parameter : layout_.frozen) share(first[parameter.slot].tensor());
  for (const auto& integer : layout_.integers) share(first[integer.slot].tensor());
}

void MirroredTensors::share(const at::Tensor& tensor) {
  // Booleans are sent as bytes.
  auto values = tensor.scalar_type() == at::kBool ? tensor.to(at::kByte) : tensor.contiguous();
  group_->broadcast({values.data_ptr(), values.numel(), nn::data_type_of(values.scalar_type()),
                     "mirrored values"});
  if (!values.is_same(tensor)) tensor.copy_(values);
}

void MirroredTensors::attach() {
  const torch::NoGradGuard no_grad;
  for (const auto& slots : replicas_) {
    for (const auto& parameter : layout_.parameters) {
      for (auto tensor : slots[parameter.slot].tensors) tensor.set_data(view(values_, parameter));
    }
    for (const auto& buffer : layout_.buffers) {
      slots[buffer.slot].tensor().copy_(view(values_, buffer));
    }
    const auto copy_first = [&](const PlacedTensor& placed) {
      slots[placed.slot].tensor().copy_(replicas_.front()[placed.slot].tensor());
    };
    if (&slots == &replicas_.front()) continue;
    for (const auto& parameter : layout_.frozen) copy_first(parameter);
    for (const auto& integer : layout_.integers) copy_first(integer);
  }
}

std::vector<at::Tensor> MirroredTensors::parameters() const {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : layout_.parameters) {
    parameters.push_back(replicas_.front()[parameter.slot].tensor());
  }
  return parameters;
}

/// A tied parameter may be several tensors, whose gradients are added.
bool MirroredTensors::write_gradient(const nn::Slot& slot, const PlacedTensor& placed,
                                     const at::Tensor& leaf) {
  bool is_there = false;
  for (auto tensor : slot.tensors) {
    if (!tensor.grad().defined()) continue;
    refuse_sparse(tensor.grad(), placed.name);
    view(leaf, placed).add_(tensor.grad());
    tensor.mutable_grad().reset();
    is_there = true;
  }
  return is_there;
}

/// A replica that reads other memory than the shared copy would not see updates.
void MirroredTensors::check_stayed() const {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    check_tensors_stayed(replicas_[i], nn::slots_of(sources_[i]()));
    for (const auto& parameter : layout_.parameters) {
      const auto place = view(values_, parameter);
      const auto is_there = [&](const auto& tensor) { return tensor.is_alias_of(place); };
      if (std::ranges::all_of(replicas_[i][parameter.slot].tensors, is_there)) continue;
      throw Error(ErrorKind::Options,
                  fmt::format("model: '{}' was given other memory than the replicas of this "
                              "instance share",
                              parameter.name),
                  "write parameters in place, as parameter.copy_(...) does");
    }
  }
}

/// Gradients, buffers, and the totals of a replica.
at::Tensor MirroredTensors::leaf_of(const std::vector<nn::Slot>& slots) {
  const auto totals = totals_of(layout_);
  auto leaf =
      at::zeros({layout_.num_elements + static_cast<std::int64_t>(totals.count())}, at::kFloat);
  auto changed = totals.changed(totals_in(leaf, totals)).begin();
  for (const auto& parameter : layout_.parameters) {
    *changed++ = write_gradient(slots[parameter.slot], parameter, leaf) ? 1.0F : 0.0F;
  }
  for (const auto& buffer : layout_.buffers) {
    const auto& tensor = slots[buffer.slot].tensor();
    view(leaf, buffer).copy_(tensor);
    *changed++ = tensor.equal(view(values_, buffer)) ? 0.0F : 1.0F;
  }
  std::ranges::copy(hash_of_integers(layout_, slots), totals.hash(totals_in(leaf, totals)).begin());
  return leaf;
}

/// Adds the leaves of all replicas of the job.
at::Tensor MirroredTensors::add_up() {
  std::vector<at::Tensor> leaves;
  std::vector<comm::ConstBuffer> buffers;
  for (const auto& slots : replicas_) {
    leaves.push_back(leaf_of(slots));
    buffers.emplace_back(leaves.back().data_ptr(), leaves.back().numel(), DataType::F32,
                         "gradients");
  }
  auto sum = at::empty_like(leaves.front());
  group_->reduce(buffers, {sum.data_ptr(), sum.numel(), DataType::F32, "gradients"},
                 comm::ReduceOp::Sum);
  return sum;
}

void MirroredTensors::combine() {
  const torch::NoGradGuard no_grad;
  check_stayed();
  const auto sum = add_up();
  const auto totals = totals_of(layout_);
  const auto numbers = totals_in(sum, totals);
  for (const auto& slots : replicas_) {
    check_integers_agree(layout_, totals.hash(numbers), hash_of_integers(layout_, slots),
                         group_->num_replicas());
  }
  const auto is_mean = group_->options().reduction() == Reduction::Mean;
  const auto replicas = static_cast<double>(group_->num_replicas());
  auto changed = totals.changed(numbers).begin();
  for (const auto& parameter : layout_.parameters) {
    if (*changed++ == 0) continue;
    const auto gradient = view(sum, parameter);
    auto tensor = replicas_.front()[parameter.slot].tensor();
    tensor.mutable_grad() = is_mean ? gradient / replicas : gradient.clone();
  }
  for (const auto& buffer : layout_.buffers) {
    if (*changed++ == 0) continue;  // an unchanged buffer keeps its bits
    view(values_, buffer).copy_(view(sum, buffer) / replicas);
    for (const auto& slots : replicas_) slots[buffer.slot].tensor().copy_(view(values_, buffer));
  }
}

void MirroredTensors::forget_gradients() {
  for (const auto& slots : replicas_) {
    for (const auto& parameter : layout_.parameters) {
      for (auto tensor : slots[parameter.slot].tensors) tensor.mutable_grad().reset();
    }
  }
}

}  // namespace lockstep::train
