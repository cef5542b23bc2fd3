#include "lockstep/train/backends/replica.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/optimizer/stream_copy.h"
#include "lockstep/optimizer/update_kernels.h"

namespace lockstep::train {
namespace {

std::vector<std::int64_t> whole_numbers_of(const at::Tensor& tensor) {
  const auto numbers = tensor.to(at::kCPU, at::kLong).contiguous();
  const auto* first = numbers.data_ptr<std::int64_t>();
  return {first, first + numbers.numel()};
}

void check_is_classifier(const at::Tensor& output, const at::Tensor& labels,
                         const std::string& field) {
  const bool is_whole = at::isIntegralType(labels.scalar_type(), /*includeBool=*/false);
  if (is_whole && output.dim() == 2 && labels.dim() == 1 && output.size(0) == labels.size(0)) {
    return;
  }
  throw Error(ErrorKind::Options,
              fmt::format("evaluate: expected outputs [samples, classes] and whole numbers "
                          "[samples] in the field '{}', found outputs {} and {} {}",
                          field, c10::str(output.sizes()), c10::toString(labels.scalar_type()),
                          c10::str(labels.sizes())),
              "name the field that holds one class for each sample");
}

void add_predictions(const at::Tensor& output, const Fields& fields, const std::string& field,
                     ReplicaResult& to) {
  const auto& labels = fields[field];
  check_is_classifier(output, labels, field);
  to.classes = output.size(1);
  to.truths = whole_numbers_of(labels);
  to.predictions = whole_numbers_of(output.argmax(1));
  for (const auto truth : to.truths) {
    if (truth >= 0 && truth < to.classes) continue;
    throw Error(ErrorKind::Data,
                fmt::format("evaluate: expected classes of 0 to {} in the field '{}', because the "
                            "model has {} outputs, found {}",
                            to.classes - 1, field, to.classes, truth),
                "evaluate a model that has an output for each class of the dataset");
  }
}

/// Copies a tensor out of the memory of the engine.
void give_own_memory(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  auto copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  copy.copy_(tensor);
  at::Tensor(tensor).set_data(copy);
}

void copy_integers_of(const WeightLayout& layout, const std::vector<nn::Slot>& slots,
                      std::byte* to) {
  for (const auto& integer : layout.integers) {
    const auto& tensor = slots[integer.slot].tensor();
    view_of(integer, to, tensor.scalar_type()).copy_(tensor);
  }
}

}  // namespace

at::Tensor model_input(const Fields& fields, const Task& task) {
  if (task.input) return task.input(fields);
  return fields.has("image") ? fields["image"] : fields.front();
}

at::Tensor sum_of(const Metric& metric, const at::Tensor& output, const Fields& fields) {
  auto sum = metric.sum(output, fields);
  if (sum.numel() == 1) return sum;
  throw Error(
      ErrorKind::Options,
      fmt::format("metric '{}': expected one number, found {}", metric.name, c10::str(sum.sizes())),
      "return the sum over the micro-batch");
}

ReplicaResult evaluate_output(const at::Tensor& output, const Fields& fields, const Task& task,
                              const std::string& class_field) {
  ReplicaResult result;
  // Before the loss: libtorch's error for an unknown class says less.
  if (!class_field.empty()) add_predictions(output, fields, class_field, result);
  const auto& loss = task.test_loss ? task.test_loss : task.loss;
  result.loss = loss(output, fields).item<double>();
  add_metrics(output, fields, task, result);
  return result;
}

void add_metrics(const at::Tensor& output, const Fields& fields, const Task& task,
                 ReplicaResult& to) {
  to.metrics.resize(task.metrics.size());
  for (std::size_t i = 0; i < task.metrics.size(); ++i) {
    to.metrics[i] += sum_of(task.metrics[i], output, fields).item<double>();
  }
}

void refuse_sparse(const at::Tensor& gradient, const std::string& name) {
  if (gradient.layout() == at::kStrided) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("model: the gradient of '{}' is sparse, and only dense ones are combined", name),
      "build the embedding with sparse(false)");
}

at::Tensor gradient_of(const nn::Slot& slot, const PlacedTensor& parameter) {
  at::Tensor gradient;
  for (const auto& tensor : slot.tensors) {
    if (!tensor.grad().defined()) continue;
    refuse_sparse(tensor.grad(), parameter.name);
    gradient = gradient.defined() ? gradient + tensor.grad() : tensor.grad();
  }
  if (!gradient.defined() || gradient.strides() == at::IntArrayRef(parameter.strides)) {
    return gradient;
  }
  return at::empty_strided(parameter.sizes, parameter.strides, gradient.options()).copy_(gradient);
}

void check_tensors_stayed(const std::vector<nn::Slot>& before, const std::vector<nn::Slot>& now) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i < now.size() && now[i].tensor().is_same(before[i].tensor())) continue;
    throw Error(
        ErrorKind::Options,
        fmt::format("model: '{}' is another tensor after a step than before", before[i].name()),
        "let the module write its buffers in place, as buffer.copy_(...) does");
  }
}

void check_integers_agree(const WeightLayout& layout, std::span<const float> sums,
                          const std::array<float, LeafTotals::kHashBytes>& hash, int replicas) {
  for (std::size_t i = 0; i < hash.size(); ++i) {
    if (sums[i] == hash[i] * static_cast<float>(replicas)) continue;
    throw Error(ErrorKind::Options,
                fmt::format("model: replicas disagree about buffers of whole numbers, which "
                            "cannot be averaged: one of '{}' and {} others",
                            layout.integers.front().name, layout.integers.size() - 1),
                "let them depend on the step alone, or make them floating-point buffers");
  }
}

Replica::Replica(int number, std::unique_ptr<nn::Model> model, const WeightLayout& layout,
                 const StateShape& shape)
    : number_(number),
      model_(std::move(model)),
      slots_(nn::slots_of(model_->tensors())),
      layout_(&layout),
      shape_(&shape),
      is_written_(layout.parameters.size()) {}

void Replica::attach(const float* weights, const std::byte* state) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : layout_->parameters) {
    const auto view = view_of(parameter, weights);
    for (auto tensor : slots_[parameter.slot].tensors) tensor.set_data(view);
  }
  const auto* all = shape_->weights(state).data();  // the buffers are behind the weights
  for (const auto& buffer : layout_->buffers) {
    slots_[buffer.slot].tensor().copy_(view_of(buffer, all));
  }
  for (const auto& integer : layout_->integers) {
    const auto& tensor = slots_[integer.slot].tensor();
    tensor.copy_(view_of(integer, shape_->integers(state), tensor.scalar_type()));
  }
}

void Replica::attach_frozen(const float* frozen) {
  for (const auto& parameter : layout_->frozen) {
    const auto view = view_of(parameter, frozen);
    for (auto tensor : slots_[parameter.slot].tensors) tensor.set_data(view);
  }
}

void Replica::prepare_to_learn() {
  model_->set_mode(nn::Mode::Train);
  for (const auto& parameter : layout_->frozen) {
    for (auto tensor : slots_[parameter.slot].tensors) tensor.set_requires_grad(false);
  }
}

void Replica::detach() {
  const auto give = [&](const PlacedTensor& placed) {
    const auto& tensors = slots_[placed.slot].tensors;
    give_own_memory(tensors.front());
    for (std::size_t i = 1; i < tensors.size(); ++i) {
      at::Tensor(tensors[i]).set_data(tensors.front().detach());
    }
  };
  for (const auto& parameter : layout_->parameters) give(parameter);
  for (const auto& parameter : layout_->frozen) give(parameter);
}

ReplicaResult Replica::evaluate(const Fields& fields, const Task& task,
                                const std::string& class_field) {
  return evaluate_output(model_->forward(model_input(fields, task)), fields, task, class_field);
}

/// Returns whether there is a gradient.
bool Replica::write_gradient(const PlacedParameter& parameter, const LeafFormat& format,
                             float* leaf) {
  const auto& slot = slots_[parameter.slot];
  const auto gradient = gradient_of(slot, parameter);
  for (auto tensor : slot.tensors) tensor.mutable_grad().reset();
  const std::span to(leaf + parameter.first, static_cast<std::size_t>(parameter.count));
  if (!gradient.defined()) {
    std::fill(to.begin(), to.end(), 0.0F);
    return false;
  }
  const std::span<const float> from(gradient.data_ptr<float>(), to.size());
  if (format.type == DataType::F32 && format.loss_scale == 1) {
    optimizer::stream_copy(from, to);
  } else {
    optimizer::round_leaf(format.type, format.loss_scale, from, to);
  }
  return true;
}

/// Returns whether the step changed the buffer.
bool Replica::write_buffer(const PlacedTensor& buffer, float* leaf, const std::byte* state) const {
  view_of(buffer, leaf).copy_(slots_[buffer.slot].tensor());
  return std::memcmp(leaf + buffer.first, shape_->weights(state).data() + buffer.first,
                     static_cast<std::size_t>(buffer.count) * sizeof(float)) != 0;
}

void Replica::cut(const plan::StageSplit& split) {
  std::map<std::string, int> stages;  // by name of a tensor
  for (std::size_t block = 0; block < model_->block_names().size(); ++block) {
    const auto next = std::ranges::upper_bound(split, static_cast<int>(block));
    const auto stage = static_cast<int>(next - split.begin()) - 1;
    for (const auto& named : model_->block_tensors(block)) stages.emplace(named.name, stage);
  }
  stage_of_.clear();
  for (const auto& slot : slots_) {
    const auto found = stages.find(slot.name());
    stage_of_.push_back(found == stages.end() ? 0 : found->second);
  }
}

void Replica::write_parameter(std::size_t parameter, std::span<float> leaf,
                              const LeafTotals& totals, const LeafFormat& format) {
  const bool has_gradient = write_gradient(layout_->parameters[parameter], format, leaf.data());
  totals.changed(leaf.last(totals.count()))[parameter] = has_gradient ? 1 : 0;
  is_written_[parameter] = 1;
}

void Replica::write_leaf(int stage, std::span<float> leaf, const LeafTotals& totals,
                         const LeafFormat& format, const std::byte* state) {
  const torch::NoGradGuard no_grad;
  const auto& parameters = layout_->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_mine = stage_of_[parameters[i].slot] == stage;
    if (is_mine && is_written_[i] == 0) write_parameter(i, leaf, totals, format);
    if (is_mine) is_written_[i] = 0;
  }
  auto changed = totals.changed(leaf.last(totals.count())).begin() + std::ssize(parameters);
  for (const auto& buffer : layout_->buffers) {
    const auto place = changed++;
    if (stage_of_[buffer.slot] != stage) continue;
    *place = write_buffer(buffer, leaf.data(), state) ? 1 : 0;
  }
}

void Replica::write_results(std::span<float> leaf, const LeafTotals& totals,
                            const ReplicaResult& result, const LeafFormat& format) {
  if (!has_learned_) check_tensors_stayed(slots_, nn::slots_of(model_->tensors()));
  has_learned_ = true;
  const auto numbers = leaf.last(totals.count());
  const auto losses = totals.losses(numbers);
  std::ranges::fill(losses, 0.0F);
  losses[static_cast<std::size_t>(number_)] =
      static_cast<float>(result.loss / static_cast<double>(format.micro_batches));
  std::copy(result.metrics.begin(), result.metrics.end(), totals.metrics(numbers).begin());
  const auto hash = integer_hash();
  std::copy(hash.begin(), hash.end(), totals.hash(numbers).begin());
}

void Replica::copy_integers(std::byte* to) const {
  copy_integers_of(*layout_, slots_, to);
}

std::array<float, LeafTotals::kHashBytes> Replica::integer_hash() const {
  return hash_of_integers(*layout_, slots_);
}

std::array<float, LeafTotals::kHashBytes> hash_of_integers(const WeightLayout& layout,
                                                           const std::vector<nn::Slot>& slots) {
  if (layout.integers.empty()) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(layout.integer_bytes));
  copy_integers_of(layout, slots, bytes.data());
  return hash_of_integers(bytes);
}

std::array<float, LeafTotals::kHashBytes> hash_of_integers(std::span<const std::byte> bytes) {
  std::array<float, LeafTotals::kHashBytes> hash{};
  Fnv fnv;
  for (const auto byte : bytes) fnv.add(static_cast<std::uint64_t>(byte));
  for (std::size_t i = 0; i < hash.size(); ++i) {
    hash[i] = static_cast<float>(fnv.value() >> (8 * i) & 0xff);
  }
  return hash;
}

}  // namespace lockstep::train
