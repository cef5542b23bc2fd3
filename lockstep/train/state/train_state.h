#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/train/state/weight_layout.h"

namespace lockstep::train {

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
  std::int64_t is_stopped = 0;         ///< 1: this process makes no further step
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
class StateShape {
 public:
  StateShape(const WeightLayout& layout, int num_states, bool has_average);

  std::size_t bytes() const noexcept { return progress_at_ + sizeof(Progress); }
  bool has_average() const noexcept { return has_average_; }

  std::span<float> weights(std::byte* state) const { return part(state, 0); }
  std::span<const float> weights(const std::byte* state) const { return part(state, 0); }
  std::span<float> buffers(std::byte* state) const;
  std::span<const float> buffers(const std::byte* state) const;
  /// The optimizer state, 0 or 1.
  std::span<float> kept(std::byte* state, std::size_t index) const;
  std::span<const float> kept(const std::byte* state, std::size_t index) const;
  std::span<float> average(std::byte* state) const;
  std::span<const float> average(const std::byte* state) const;
  /// Number of updates of each parameter.
  std::span<std::int64_t> counts(std::byte* state) const {
    return {reinterpret_cast<std::int64_t*>(state + counts_at_), num_counts_};
  }
  std::span<const std::int64_t> counts(const std::byte* state) const {
    return {reinterpret_cast<const std::int64_t*>(state + counts_at_), num_counts_};
  }
  std::byte* integers(std::byte* state) const { return state + integers_at_; }
  const std::byte* integers(const std::byte* state) const { return state + integers_at_; }
  Progress& progress(std::byte* state) const {
    return *reinterpret_cast<Progress*>(state + progress_at_);
  }
  const Progress& progress(const std::byte* state) const {
    return *reinterpret_cast<const Progress*>(state + progress_at_);
  }

 private:
  std::span<float> part(std::byte* state, std::int64_t first) const;
  std::span<const float> part(const std::byte* state, std::int64_t first) const;

  std::int64_t num_parameters_;
  std::int64_t num_elements_;
  int num_states_;
  bool has_average_;
  std::size_t num_counts_;
  std::size_t integers_at_;
  std::size_t counts_at_;
  std::size_t progress_at_;
};

}  // namespace lockstep::train
