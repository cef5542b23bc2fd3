#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/train/weight_layout.h"

namespace lockstep::train {

inline constexpr std::size_t kMostMetrics = 8;

/// How far a training is, and what else of it is not a tensor. It changes with the weights, under
/// the same commit word.
struct Progress {
  std::int64_t steps = 0;       ///< optimizer steps so far, with skipped ones
  std::int64_t updates = 0;     ///< those that changed weights
  double loss_scale = 1;        ///< of the next step
  std::int64_t good_steps = 0;  ///< since the loss scale last changed
  std::int64_t epoch = 0;
  std::int64_t epoch_steps = 0;  ///< of this epoch so far
  double epoch_loss = 0;         ///< sum over them
  std::array<double, kMostMetrics> epoch_metrics{};
  std::int64_t loads = 0;              ///< how often weights were set from outside
  std::int64_t steps_before_load = 0;  ///< all that were made before the last time
  std::int64_t loop = 0;        ///< over epochs, from 1, that the last step was in; 0: in none
  std::int64_t loop_epoch = 0;  ///< of that loop, from 1
  std::int64_t loader = 0;      ///< that all samples so far came from; `kSeveralLoaders`
  std::int64_t is_stopped = 0;  ///< 1: no step follows in this process
};
inline constexpr std::int64_t kSeveralLoaders = -1;

/// What is kept beside the versions of a state, and does not change with each step. Each number is
/// whole at any time.
struct KeptNumbers {
  std::atomic<std::int64_t> finished_epochs;
  std::atomic<std::uint64_t> loader_print;
};

/// Where things stand in what the versions of a state have in common: parameters that stay, and
/// numbers behind them.
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

/// Where things stand in one version of the state: weights, buffers, what the optimizer keeps, the
/// average of weights, integer buffers, how often parameters were updated, and the progress.
class StateShape {
 public:
  StateShape(const WeightLayout& layout, int num_states, bool has_average);

  std::size_t bytes() const noexcept { return progress_at_ + sizeof(Progress); }

  std::span<float> weights(std::byte* state) const { return part(state, 0); }
  std::span<const float> weights(const std::byte* state) const { return part(state, 0); }
  std::span<float> buffers(std::byte* state) const;
  std::span<const float> buffers(const std::byte* state) const;
  /// What the optimizer keeps, 0 or 1; behind it the average.
  std::span<float> kept(std::byte* state, std::size_t index) const;
  std::span<const float> kept(const std::byte* state, std::size_t index) const;
  std::span<float> average(std::byte* state) const;
  std::span<const float> average(const std::byte* state) const;
  /// How often each parameter was updated.
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
  std::size_t num_counts_;
  std::size_t integers_at_;
  std::size_t counts_at_;
  std::size_t progress_at_;
};

}  // namespace lockstep::train
