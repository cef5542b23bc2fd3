#include "lockstep/train/state/train_state.h"

namespace lockstep::train {

StateShape::StateShape(const WeightLayout& layout, int num_states, bool has_average)
    : num_parameters_(layout.num_parameters),
      num_elements_(layout.num_elements),
      num_states_(num_states),
      has_average_(has_average),
      num_counts_(layout.parameters.size()) {
  const auto floats = num_elements_ + num_parameters_ * (num_states + (has_average ? 1 : 0));
  integers_at_ = static_cast<std::size_t>(floats) * sizeof(float);
  counts_at_ = integers_at_ + static_cast<std::size_t>(layout.integer_bytes);
  progress_at_ = counts_at_ + num_counts_ * sizeof(std::int64_t);
}

std::span<float> StateShape::part(std::byte* state, std::int64_t first) const {
  return {reinterpret_cast<float*>(state) + first, static_cast<std::size_t>(num_parameters_)};
}

std::span<const float> StateShape::part(const std::byte* state, std::int64_t first) const {
  return {reinterpret_cast<const float*>(state) + first, static_cast<std::size_t>(num_parameters_)};
}

std::span<float> StateShape::buffers(std::byte* state) const {
  return {reinterpret_cast<float*>(state) + num_parameters_,
          static_cast<std::size_t>(num_elements_ - num_parameters_)};
}

std::span<const float> StateShape::buffers(const std::byte* state) const {
  return {reinterpret_cast<const float*>(state) + num_parameters_,
          static_cast<std::size_t>(num_elements_ - num_parameters_)};
}

std::span<float> StateShape::kept(std::byte* state, std::size_t index) const {
  return part(state, num_elements_ + static_cast<std::int64_t>(index) * num_parameters_);
}

std::span<const float> StateShape::kept(const std::byte* state, std::size_t index) const {
  return part(state, num_elements_ + static_cast<std::int64_t>(index) * num_parameters_);
}

std::span<float> StateShape::average(std::byte* state) const {
  return kept(state, static_cast<std::size_t>(num_states_));
}

std::span<const float> StateShape::average(const std::byte* state) const {
  return kept(state, static_cast<std::size_t>(num_states_));
}

}  // namespace lockstep::train
