#pragma once

#include <cstdint>

#include "lockstep/base/export.h"

namespace lockstep::data {

/// The batch arithmetic of a job: B, G, D and R of `docs/internals/architecture.md`.
struct BatchShape {
  std::int64_t batch_size = 1;             ///< B: samples of one micro-batch on one replica
  std::int64_t gradient_accumulation = 1;  ///< G: micro-batches of one optimizer step
  std::int64_t device_iterations = 1;      ///< D: optimizer steps of one iteration
  std::int64_t replicas = 1;               ///< R: of the whole job

  std::int64_t samples_per_replica_step() const noexcept {
    return batch_size * gradient_accumulation;
  }
  std::int64_t samples_per_step() const noexcept { return samples_per_replica_step() * replicas; }
  std::int64_t samples_per_iteration() const noexcept {
    return samples_per_step() * device_iterations;
  }

  bool operator==(const BatchShape&) const = default;
};

/// Throws `Options` for a number below 1 or a product that is out of all range.
LOCKSTEP_API void check(const BatchShape& shape);

/// floor(N / (B·G·D·R)): the tail that fills no iteration is dropped.
/// Throws `Options` where a set does not fill a single one.
LOCKSTEP_API std::int64_t iterations_per_epoch(std::int64_t samples, const BatchShape& shape);

}  // namespace lockstep::data
