#include "lockstep/train/backends/gpu/gpu_memory.h"

#include <algorithm>
#include <limits>

#include "lockstep/gpu/pictures/set_layout.h"
#include "lockstep/gpu/update/leaf_steps.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

/// What else a pass needs, as shares of the activations that it keeps: what they are made from on
/// the way, and what libraries work with.
constexpr double kBesideActivations = 1.35;

std::int64_t size_of_compute(const GpuDemand& demand) {
  return static_cast<std::int64_t>(size_of(demand.compute));
}

/// Of one micro-batch.
std::int64_t activation_bytes(const GpuDemand& demand) {
  const auto share = static_cast<double>(size_of_compute(demand)) / kFloat;
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(demand.kept_bytes) * share *
                                   kBesideActivations));
}

/// One version to compute with and one on its way home; the model's own, where it computes in 16
/// bits; and what micro-batches of several passes come to.
std::int64_t state_bytes(const GpuDemand& demand) {
  const auto& weights = demand.weights;
  const auto half = demand.compute == DataType::F32 ? 0 : size_of_compute(demand);
  return 2 * static_cast<std::int64_t>(demand.shape.bytes()) +
         half * (weights.num_parameters + weights.num_frozen) +
         kFloat * (weights.num_parameters + weights.num_frozen);
}

std::int64_t sample_bytes(const GpuDemand& demand) {
  std::int64_t loaded = 0;
  std::int64_t numbers = 0;
  for (const auto& field : demand.samples.fields) {
    loaded += static_cast<std::int64_t>(data::bytes_of(field));
    numbers += data::count_of(field);
  }
  const auto per_step = demand.input.samples_per_step();
  const auto computed = per_step * numbers * size_of_compute(demand);
  if (!demand.samples.stored) return 2 * demand.input.steps * per_step * loaded + computed;
  const auto& set = *demand.samples.stored->set;
  return gpu::lay_out_set(set.fields(), set.size(), std::numeric_limits<std::int64_t>::max())
             .bytes +
         computed;
}

}  // namespace

GpuMemory gpu_memory(const GpuDemand& demand, std::int64_t groups) {
  const auto rows = gpu::leaf_steps(demand.input.replicas.count).num_rows;
  return {.state = state_bytes(demand),
          .sums = rows * demand.weights.num_elements * kFloat,
          .samples = sample_bytes(demand),
          .activations = groups * activation_bytes(demand)};
}

std::int64_t groups_that_fit(const GpuDemand& demand, std::int64_t bytes) {
  const auto left = bytes - gpu_memory(demand, 0).total();
  return std::max<std::int64_t>(1, left / activation_bytes(demand));
}

}  // namespace lockstep::train
