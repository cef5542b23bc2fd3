#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/nn/model.h"
#include "lockstep/optimizer/parameter_settings.h"

// The layout of the memory of a training: the weights of a model in flat memory, a leaf, a version
// of the state, and the memory that all versions share.

namespace lockstep::train {

/// A tensor of the model, and its place in flat memory.
struct PlacedTensor {
  std::size_t slot = 0;  ///< among `slots_of` the model
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  ///< dense, in the order of the memory format
  std::int64_t first = 0;             ///< elements before it; for integers: bytes
  std::int64_t count = 0;
};

struct PlacedParameter : PlacedTensor {
  optimizer::ParameterSettings settings;
  std::size_t first_block = 0;
  std::size_t num_blocks = 0;
};

/// The place of every tensor of a model in flat memory: a pure function of the model and of the
/// optimizer's groups, so it is the same on every instance.
///
/// The trained parameters come first, then the floating-point buffers. A leaf has one number for
/// each of these elements. Every tensor begins at a cache line and at a new block of the ordered
/// sum, so that no block has elements of two tensors.
struct WeightLayout {
  std::vector<PlacedParameter> parameters;  ///< trained parameters
  std::int64_t num_parameters = 0;          ///< their elements, with padding
  std::vector<PlacedTensor> buffers;        ///< f32 buffers, behind the parameters
  std::int64_t num_elements = 0;            ///< of parameters and buffers
  std::vector<PlacedTensor> integers;       ///< integer buffers; `first` counts bytes
  std::int64_t integer_bytes = 0;
  std::vector<PlacedTensor> frozen;  ///< parameters that are not trained, in separate memory
  std::int64_t num_frozen = 0;
  std::vector<std::int64_t> blocks;  ///< first element of each block
};

/// Errors: `Options` if there is no parameter to train, for parameters and buffers of unsupported
/// types, and for a group of the optimizer that matches no parameter.
WeightLayout lay_out_weights(const std::vector<nn::Slot>& slots, const Optimizer& optimizer);

/// The tensor of `placed`, as a view of the memory at `base`.
at::Tensor view_of(const PlacedTensor& placed, const void* base, at::ScalarType type = at::kFloat);

/// The layout of the numbers behind the gradients of a leaf: which tensors changed, the losses,
/// sums of metrics, requests, and a hash of the integer buffers. They are summed in f32, and every
/// instance gets the sums.
///
/// Each replica has its own number for its loss, so that the sum contains all losses unchanged.
/// Each replica adds the bytes of its hash. The integer buffers agree if each sum is R times the
/// byte of the own hash.
class LeafTotals {
 public:
  static constexpr std::size_t kHashBytes = 8;
  static constexpr std::size_t kRequests = 2;

  LeafTotals(const WeightLayout& layout, int replicas, std::size_t metrics)
      : tensors_(layout.parameters.size() + layout.buffers.size()),
        replicas_(static_cast<std::size_t>(replicas)),
        metrics_(metrics) {}

  std::size_t count() const noexcept {
    return tensors_ + replicas_ + metrics_ + kRequests + kHashBytes;
  }

  // The parts of the numbers, a span of `float` or `const float`:

  /// By parameter, then buffer: not zero if a replica has a gradient, or changed the buffer.
  auto changed(auto totals) const { return totals.first(tensors_); }
  auto losses(auto totals) const { return totals.subspan(tensors_, replicas_); }
  auto metrics(auto totals) const { return totals.subspan(tensors_ + replicas_, metrics_); }
  /// Not zero if an instance makes this request.
  auto requests(auto totals) const {
    return totals.subspan(tensors_ + replicas_ + metrics_, kRequests);
  }
  auto hash(auto totals) const { return totals.last(kHashBytes); }

 private:
  std::size_t tensors_;
  std::size_t replicas_;
  std::size_t metrics_;
};

inline constexpr std::size_t kMostMetrics = 8;

/// How far a training is, and all other numbers of its state that belong to no tensor. The progress
/// is committed together with the weights.
struct Progress {
  std::int64_t steps = 0;       ///< optimizer steps so far, including skipped steps
  std::int64_t updates = 0;     ///< steps that changed weights
  double loss_scale = 1;        ///< of the next step
  std::int64_t good_steps = 0;  ///< steps since the last overflow
  std::int64_t epoch = 0;
  std::int64_t epoch_steps = 0;  ///< steps of this epoch so far
  double epoch_loss = 0;         ///< sum over these steps
  std::array<double, kMostMetrics> epoch_metrics{};
  std::int64_t loads = 0;              ///< how often the program has set the weights
  std::int64_t steps_before_load = 0;  ///< steps before the program last set the weights
  std::int64_t loop = 0;               ///< the loop over epochs of the last step, from 1; 0: none
  std::int64_t loop_epoch = 0;         ///< the epoch within this loop, from 1
  std::int64_t loader = 0;             ///< the loader of all samples so far; `kSeveralLoaders`
  std::int64_t is_stopped = 0;         ///< 1: the job makes no further step
};
inline constexpr std::int64_t kSeveralLoaders = -1;

/// Numbers that are kept beside the versions of a state. Each number is stored atomically.
struct KeptNumbers {
  std::atomic<std::int64_t> finished_epochs;
  std::atomic<std::uint64_t> loader_print;
};

/// The layout of the memory that the versions of a state share: frozen parameters, then numbers.
class CommonShape {
 public:
  explicit CommonShape(const WeightLayout& layout)
      : numbers_at_(static_cast<std::size_t>(layout.num_frozen) * sizeof(float)) {}

  std::size_t bytes() const noexcept { return numbers_at_ + sizeof(KeptNumbers); }

  static float* frozen(std::byte* common) noexcept { return reinterpret_cast<float*>(common); }
  KeptNumbers& numbers(std::byte* common) const noexcept {
    return *reinterpret_cast<KeptNumbers*>(common + numbers_at_);
  }

 private:
  std::size_t numbers_at_;
};

/// The layout of one version of the state: weights, buffers, optimizer state, the average of the
/// weights, integer buffers, the number of updates of each parameter, and the progress.
///
/// The functions return a part of a version. The part is const if the version is.
class StateShape {
 public:
  StateShape(const WeightLayout& layout, int num_states, bool has_average);

  std::size_t bytes() const noexcept { return progress_at_ + sizeof(Progress); }
  bool has_average() const noexcept { return has_average_; }

  auto weights(auto* state) const { return part<float>(state, 0, num_parameters_); }
  /// The optimizer state, 0 or 1.
  auto kept(auto* state, std::size_t index) const {
    const auto first = num_elements_ + index * num_parameters_;
    return part<float>(state, first * sizeof(float), num_parameters_);
  }
  auto average(auto* state) const { return kept(state, num_states_); }
  auto* integers(auto* state) const { return state + integers_at_; }
  /// Number of updates of each parameter.
  auto counts(auto* state) const { return part<std::int64_t>(state, counts_at_, num_counts_); }
  auto& progress(auto* state) const { return part<Progress>(state, progress_at_, 1).front(); }

 private:
  template <typename Number, typename Byte>
  static auto part(Byte* state, std::size_t at, std::size_t count) {
    using Like = std::conditional_t<std::is_const_v<Byte>, const Number, Number>;
    return std::span<Like>(reinterpret_cast<Like*>(state + at), count);
  }

  std::size_t num_parameters_;
  std::size_t num_elements_;
  std::size_t num_states_;
  bool has_average_;
  std::size_t num_counts_;
  std::size_t integers_at_;
  std::size_t counts_at_;
  std::size_t progress_at_;
};

}  // namespace lockstep::train
