#include "lockstep/gpu/check.h"
#include "lockstep/gpu/update/element_rules.cuh"
#include "lockstep/gpu/update/rows.cuh"
#include "lockstep/gpu/update/update.h"

namespace lockstep::gpu {
namespace {

template <int width>
__device__ void store_rounded(const UpdateRows& rows, const float (&weights)[width],
                              std::int64_t i) {
  if (rows.half == nullptr) return;
  auto* const half = static_cast<std::uint16_t*>(rows.half) + i;
  if (rows.half_type == DataType::BF16) {
    store_half<DataType::BF16>(weights, half);
  } else {
    store_half<DataType::F16>(weights, half);
  }
}

/// Elements [i, i + width). All loads stand before all else, so that they are under way together.
template <typename Rule, int width>
__device__ void update_elements(const UpdateCall& call, const Rule& rule, const Divisor& divisor,
                                float clip, std::int64_t i) {
  const auto& rows = call.rows;
  float gradients[width];
  float weights[width];
  float first[width] = {};
  float second[width] = {};
  float averages[width] = {};
  load(rows.sum + i, gradients);
  load(rows.weights + i, weights);
  if constexpr (Rule::kStates > 0) load(rows.first + i, first);
  if constexpr (Rule::kStates > 1) load(rows.second + i, second);
  if (rows.average != nullptr) load(rows.average + i, averages);

  divisor.divide(gradients);
  for (int k = 0; k < width; ++k) {
    const auto next = rule(gradients[k] * clip, {weights[k], first[k], second[k]});
    weights[k] = next.weight;
    first[k] = next.first;
    second[k] = next.second;
    averages[k] = call.rules.average_decay * averages[k] + call.rules.average_rest * next.weight;
  }

  store(weights, rows.weights + i);
  if constexpr (Rule::kStates > 0) store(first, rows.first + i);
  if constexpr (Rule::kStates > 1) store(second, rows.second + i);
  if (rows.average != nullptr) store(averages, rows.average + i);
  store_rounded(rows, weights, i);
}

/// The mean over replicas.
__device__ void update_buffer(const UpdateCall& call, const Chunk& chunk) {
  const Divisor replicas(call.rules.replicas);
  const bool has_vectors = is_aligned(call.rows.sum) && is_aligned(call.rows.weights);
  const Runs runs(chunk.first, chunk.count, has_vectors);
  for_elements(runs, [&](std::int64_t i, auto width) {
    float values[width.value];
    load(call.rows.sum + i, values);
    replicas.divide(values);
    store(values, call.rows.weights + i);
  });
}

/// Rows that are not there are null, which is aligned.
__device__ bool has_vectors(const UpdateRows& rows) {
  return is_aligned(rows.sum) && is_aligned(rows.weights) && is_aligned(rows.first) &&
         is_aligned(rows.second) && is_aligned(rows.average) &&
         is_aligned(rows.half, sizeof(std::uint16_t));
}

/// LAMB's step size is known here alone, and rounded as `lamb_coefficients` rounds it.
template <typename Rule>
__device__ Rule rule_for(const UpdateCall& call, const StepControl& control,
                         std::int32_t parameter) {
  auto coefficients = coefficients_of(call, control, parameter);
  if constexpr (std::is_same_v<Rule, LambRule>) {
    coefficients.step_size = static_cast<float>(coefficients.lr * call.trust[parameter]);
  }
  return Rule(call.rules, coefficients);
}

template <typename Rule>
__global__ void __launch_bounds__(kThreads) update_chunk(const __grid_constant__ UpdateCall call) {
  const auto control = *call.control;
  const auto chunk = call.chunks.data[blockIdx.x];
  if (!is_updated(call, control, chunk.tensor)) return;
  if (chunk.tensor >= call.num_parameters) return update_buffer(call, chunk);
  const auto rule = rule_for<Rule>(call, control, chunk.tensor);
  const Divisor divisor(call.rules.divisor);
  const Runs runs(chunk.first, chunk.count, has_vectors(call.rows));
  for_elements(runs, [&](std::int64_t i, auto width) {
    update_elements<Rule, width.value>(call, rule, divisor, control.clip, i);
  });
}

template <typename Rule>
void launch(const UpdateCall& call, Stream stream) {
  update_chunk<Rule><<<static_cast<unsigned>(call.chunks.count), kThreads, 0, stream>>>(call);
  check_launch("update");
}

void launch_sgd(const UpdateCall& call, Stream stream) {
  if (call.rules.num_states == 0) return launch<PlainSgd>(call, stream);
  if (call.rules.nesterov) return launch<MomentumSgd<true>>(call, stream);
  launch<MomentumSgd<false>>(call, stream);
}

}  // namespace

void update(const UpdateCall& call, Stream stream) {
  if (call.chunks.count == 0) return;
  switch (call.rules.kind) {
    case OptimizerKind::Sgd:
      return launch_sgd(call, stream);
    case OptimizerKind::Adam:
      return launch<AdamRule<false>>(call, stream);
    case OptimizerKind::AdamW:
      return launch<AdamRule<true>>(call, stream);
    case OptimizerKind::Lamb:
      return launch<LambRule>(call, stream);
    case OptimizerKind::Custom:
      return;  // `update_constants` refuses it
  }
}

}  // namespace lockstep::gpu
