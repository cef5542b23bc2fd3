#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/nn/model_request.h"

// Free of torch headers: programs without libtorch include this header.

namespace lockstep::bench {

/// The step to measure: forward, loss and backward of one replica.
struct StepBench {
  nn::ModelRequest model;
  std::int64_t batch_size = 64;
  int threads = 1;
  int rounds = 20;
};

struct StepTimes {
  std::vector<double> seconds;  ///< of a step, one value for each round
  std::vector<double>
      libtorch_seconds;  ///< of the same step with libtorch's own layers and malloc;
                         ///< empty for a TorchScript file, which has no others
  double flops = 0;  ///< of a step: 2 for each multiply-add, once for forward, twice for backward
  double sgemm_flops = 0;  ///< per second, that the BLAS reaches with as many threads
};

/// First checks that both variants compute the same. Then they take turns in one process.
///
/// Errors: those of `open_model`; `Bug` if the variants do not compute the same.
StepTimes time_steps(const StepBench& bench);

}  // namespace lockstep::bench
