#include "lockstep/train/state/checkpoint_copy.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstring>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/wanted_tensors.h"
#include "lockstep/weights/row_major.h"

namespace lockstep::train {
namespace {

using weights::ElementType;
using weights::TensorView;

std::vector<std::string> names_of_kept(const Optimizer& optimizer) {
  switch (optimizer.kind()) {
    case OptimizerKind::Sgd:
      return {"momentum"};
    case OptimizerKind::Adam:
    case OptimizerKind::AdamW:
    case OptimizerKind::Lamb:
      return {"exp_avg", "exp_avg_sq"};
    case OptimizerKind::Custom:
      break;
  }
  return {"kept_0", "kept_1"};
}

/// A number of the progress, as a tensor without dimensions. The metrics have one dimension.
struct ProgressField {
  const char* name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;
};

template <typename Number>
std::span<std::byte> bytes_of(Number& number) {
  return std::as_writable_bytes(std::span<Number, 1>(&number, 1));
}

/// All fields, so that a resumed run shows the same results as an uninterrupted one.
std::vector<ProgressField> fields_of(Progress& progress, std::int64_t& finished_epochs) {
  const auto whole = [](const char* name, std::int64_t& number) {
    return ProgressField{name, ElementType::I64, {}, bytes_of(number)};
  };
  const auto real = [](const char* name, double& number) {
    return ProgressField{name, ElementType::F64, {}, bytes_of(number)};
  };
  return {whole("progress.steps", progress.steps),
          whole("progress.updates", progress.updates),
          real("progress.loss_scale", progress.loss_scale),
          whole("progress.good_steps", progress.good_steps),
          whole("progress.epoch", progress.epoch),
          whole("progress.epoch_steps", progress.epoch_steps),
          real("progress.epoch_loss", progress.epoch_loss),
          {"progress.epoch_metrics",
           ElementType::F64,
           {static_cast<std::int64_t>(kMostMetrics)},
           std::as_writable_bytes(std::span(progress.epoch_metrics))},
          whole("progress.loads", progress.loads),
          whole("progress.steps_before_load", progress.steps_before_load),
          whole("progress.loop", progress.loop),
          whole("progress.loop_epoch", progress.loop_epoch),
          whole("progress.loader", progress.loader),
          whole("progress.finished_epochs", finished_epochs)};
}

TensorView copy_of(const PlacedTensor& placed, std::string name, ElementType type, const void* base,
                   CheckpointMemory& to) {
  const auto unit = weights::size_of(type);
  const auto first = static_cast<std::size_t>(placed.first) * (type == ElementType::F32 ? unit : 1);
  const std::span elements(static_cast<const std::byte*>(base) + first,
                           static_cast<std::size_t>(placed.count) * unit);
  auto* const copy = to.take(elements.size());
  weights::to_row_major(elements, unit, {0, placed.sizes, placed.strides}, copy);
  return {std::move(name), type, placed.sizes, {copy, elements.size()}};
}

/// Fills a placed tensor from elements in row-major order.
void fill(const PlacedTensor& placed, void* base, at::ScalarType type, const TensorView& from) {
  const auto values = at::empty(placed.sizes, type);
  if (!from.bytes.empty()) std::memcpy(values.data_ptr(), from.bytes.data(), from.bytes.size());
  view_of(placed, base, type).copy_(values);
}

/// Reports that a copy is complete, or that it will never be made. (std::promise would need
/// std::call_once, which fails in a program that contains a second libstdc++ beside libtorch's.)
class CopyMark {
 public:
  explicit CopyMark(std::shared_ptr<std::atomic<bool>> is_copied)
      : is_copied_(std::move(is_copied)) {}
  ~CopyMark() { set(); }
  CopyMark(const CopyMark&) = delete;
  CopyMark& operator=(const CopyMark&) = delete;

  void set() noexcept {
    is_copied_->store(true);
    is_copied_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> is_copied_;
};

}  // namespace

StateTensors::StateTensors(const WeightLayout& layout, const StateShape& shape,
                           const std::vector<nn::Slot>& slots, const Optimizer& optimizer)
    : layout_(layout),
      shape_(shape),
      wanted_(nn::wanted_by(slots)),
      kept_names_(names_of_kept(optimizer)) {
  for (const auto& slot : slots) types_.push_back(slot.tensor().scalar_type());
  kept_names_.resize(static_cast<std::size_t>(optimizer.num_states()));
  if (optimizer.average_decay()) kept_names_.emplace_back("average");
  copy_bytes_ = count_copy_bytes();
}

/// Every tensor begins at a cache line, as in the state itself.
std::size_t StateTensors::count_copy_bytes() const {
  std::size_t bytes = 0;
  const auto add = [&](const PlacedTensor& placed, std::size_t unit, std::size_t copies = 1) {
    bytes += copies * CheckpointMemory::whole_lines(static_cast<std::size_t>(placed.count) * unit);
  };
  for (const auto& parameter : layout_.parameters) {
    add(parameter, sizeof(float), 1 + kept_names_.size());
    bytes += CheckpointMemory::whole_lines(sizeof(std::int64_t));
  }
  for (const auto& buffer : layout_.buffers) add(buffer, sizeof(float));
  for (const auto& parameter : layout_.frozen) add(parameter, sizeof(float));
  for (const auto& integer : layout_.integers) {
    add(integer, weights::size_of(wanted_.tensors[integer.slot].type));
  }
  return bytes;
}

checkpoint::Content StateTensors::copy(const std::byte* state, const float* frozen,
                                       std::int64_t finished_epochs, CheckpointMemory& to) const {
  to.clear(copy_bytes_);
  return {.manifest = {},
          .weights = copy_weights(state, frozen, to),
          .state = copy_state(state, finished_epochs, to)};
}

weights::TensorSet StateTensors::copy_weights(const std::byte* state, const float* frozen,
                                              CheckpointMemory& to) const {
  weights::TensorSet set;
  set.ties = wanted_.ties;
  const auto add = [&](const PlacedTensor& placed, const void* base) {
    const auto& wanted = wanted_.tensors[placed.slot];
    set.tensors.push_back(copy_of(placed, wanted.name, wanted.type, base, to));
  };
  const auto* all = shape_.weights(state).data();  // the buffers are behind the weights
  for (const auto& parameter : layout_.parameters) add(parameter, all);
  for (const auto& buffer : layout_.buffers) add(buffer, all);
  for (const auto& integer : layout_.integers) add(integer, shape_.integers(state));
  for (const auto& parameter : layout_.frozen) add(parameter, frozen);
  return set;
}

weights::TensorSet StateTensors::copy_state(const std::byte* state, std::int64_t finished_epochs,
                                            CheckpointMemory& to) const {
  weights::TensorSet set;
  for (std::size_t i = 0; i < kept_names_.size(); ++i) {
    for (const auto& parameter : layout_.parameters) {
      set.tensors.push_back(copy_of(parameter, fmt::format("{}.{}", kept_names_[i], parameter.name),
                                    ElementType::F32, shape_.kept(state, i).data(), to));
    }
  }
  const auto counts = shape_.counts(state);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto* const copy = to.take(sizeof(std::int64_t));
    std::memcpy(copy, &counts[i], sizeof(std::int64_t));
    set.tensors.push_back({"updates." + layout_.parameters[i].name,
                           ElementType::I64,
                           {},
                           {copy, sizeof(std::int64_t)}});
  }
  auto progress = shape_.progress(state);
  for (const auto& field : fields_of(progress, finished_epochs)) {
    set.memory.push_back(
        std::make_shared<const std::vector<std::byte>>(field.bytes.begin(), field.bytes.end()));
    set.tensors.push_back({field.name, field.type, field.shape, *set.memory.back()});
  }
  return set;
}

weights::WantedTensors StateTensors::wanted_state() const {
  weights::WantedTensors wanted;
  for (const auto& name : kept_names_) {
    for (const auto& parameter : layout_.parameters) {
      wanted.tensors.push_back(
          {fmt::format("{}.{}", name, parameter.name), ElementType::F32, parameter.sizes});
    }
  }
  for (const auto& parameter : layout_.parameters) {
    wanted.tensors.push_back({"updates." + parameter.name, ElementType::I64, {}});
  }
  Progress progress;
  std::int64_t finished_epochs = 0;
  for (const auto& field : fields_of(progress, finished_epochs)) {
    wanted.tensors.push_back({field.name, field.type, field.shape});
  }
  return wanted;
}

/// Both files are matched before anything is written.
std::int64_t StateTensors::read(const checkpoint::Checkpoint& from, std::byte* state,
                                float* frozen) const {
  const auto weights =
      weights::match(wanted_, from.weights().set(), from.weights().path().string());
  const auto rest =
      weights::match(wanted_state(), from.state().set(), from.state().path().string());
  const torch::NoGradGuard no_grad;
  std::memset(state, 0, shape_.bytes());
  const auto fill_weights = [&](const PlacedTensor& placed, void* base,
                                at::ScalarType type = at::kFloat) {
    if (weights[placed.slot] != nullptr) fill(placed, base, type, *weights[placed.slot]);
  };
  auto* all = shape_.weights(state).data();
  for (const auto& parameter : layout_.parameters) fill_weights(parameter, all);
  for (const auto& buffer : layout_.buffers) fill_weights(buffer, all);
  for (const auto& integer : layout_.integers) {
    fill_weights(integer, shape_.integers(state), types_[integer.slot]);
  }
  for (const auto& parameter : layout_.frozen) fill_weights(parameter, frozen);

  auto next = rest.begin();
  for (std::size_t i = 0; i < kept_names_.size(); ++i) {
    for (const auto& parameter : layout_.parameters) {
      fill(parameter, shape_.kept(state, i).data(), at::kFloat, **next++);
    }
  }
  for (auto& count : shape_.counts(state)) {
    std::memcpy(&count, (*next++)->bytes.data(), sizeof(count));
  }
  std::int64_t finished_epochs = 0;
  for (const auto& field : fields_of(shape_.progress(state), finished_epochs)) {
    std::memcpy(field.bytes.data(), (*next++)->bytes.data(), field.bytes.size());
  }
  return finished_epochs;
}

CheckpointCopy::Copy CheckpointCopy::begin(const std::byte* from) {
  is_copied_ = std::make_shared<std::atomic<bool>>(false);
  copied_version_ = state_.version();
  return [this, from, mark = std::make_shared<CopyMark>(is_copied_),
          finished_epochs = state_.finished_epochs()](CheckpointMemory& to) {
    auto content = tensors_.copy(from, state_.frozen(), finished_epochs, to);
    mark->set();
    return content;
  };
}

void CheckpointCopy::wait_before_write() {
  if (!is_copied_ || state_.version() == copied_version_) return;
  Stopwatch watch;
  wait();
  is_copied_.reset();
  waited_seconds_ += watch.lap();
}

}  // namespace lockstep::train
