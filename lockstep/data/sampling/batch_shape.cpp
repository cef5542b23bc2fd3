#include "lockstep/data/sampling/batch_shape.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::data {

void check(const BatchShape& shape) {
  constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;
  const struct {
    const char* name;
    std::int64_t value;
  } factors[] = {{"batch_size", shape.batch_size},
                 {"gradient_accumulation", shape.gradient_accumulation},
                 {"device_iterations", shape.device_iterations},
                 {"replicas", shape.replicas}};
  std::int64_t product = 1;
  for (const auto& [name, value] : factors) {
    if (value < 1) {
      throw Error(ErrorKind::Options,
                  fmt::format("data: {}: expected at least 1, found {}", name, value));
    }
    if (value > kMostSamples / product) {
      throw Error(ErrorKind::Options,
                  fmt::format("data: an iteration of {} x {} x {} x {} samples (batch_size, "
                              "gradient_accumulation, device_iterations, replicas) is out of range",
                              shape.batch_size, shape.gradient_accumulation,
                              shape.device_iterations, shape.replicas));
    }
    product *= value;
  }
}

std::int64_t iterations_per_epoch(std::int64_t samples, const BatchShape& shape) {
  check(shape);
  const auto needed = shape.samples_per_iteration();
  if (samples >= needed) return samples / needed;
  throw Error(
      ErrorKind::Options,
      fmt::format("data: one iteration takes {} samples (batch_size {} x gradient_accumulation {} "
                  "x device_iterations {} x replicas {}), and the set has {}",
                  needed, shape.batch_size, shape.gradient_accumulation, shape.device_iterations,
                  shape.replicas, samples),
      "lower one of the four, or take a larger set");
}

}  // namespace lockstep::data
