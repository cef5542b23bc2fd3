#include "lockstep/base/error.h"
#include "lockstep/gpu/update/update.h"
#include "lockstep/optimizer/coefficients.h"

namespace lockstep::gpu {

UpdateConstants update_constants(const Optimizer& optimizer, std::int64_t divisor, int replicas) {
  if (optimizer.kind() == OptimizerKind::Custom) {
    throw Error(ErrorKind::Options, "GPU: expected a built-in optimizer, found a custom one",
                "SGD, Adam, AdamW or LAMB, or train on the CPU");
  }
  const auto sgd = optimizer::sgd_coefficients(optimizer.sgd(), {}, 1);
  const auto adam = optimizer::adam_coefficients(optimizer.adam(), {}, 1);
  const auto decay = optimizer.average_decay().value_or(0);
  return {.kind = optimizer.kind(),
          .num_states = optimizer.num_states(),
          .nesterov = optimizer.sgd().nesterov,
          .momentum = sgd.momentum,
          .beta1 = adam.beta1,
          .rest1 = adam.rest1,
          .beta2 = adam.beta2,
          .rest2 = adam.rest2,
          .epsilon = adam.epsilon,
          .average_decay = static_cast<float>(decay),
          .average_rest = static_cast<float>(1 - decay),
          .divisor = static_cast<float>(divisor),
          .replicas = static_cast<float>(replicas)};
}

}  // namespace lockstep::gpu
