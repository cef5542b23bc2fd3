#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/nn/model_request.h"

namespace lockstep::nn {

/// What to time: forward, loss and backward of one replica. Free of torch, for whoever shows it.
struct StepBench {
  ModelRequest model;
  std::int64_t batch_size = 64;
  int threads = 1;
  int rounds = 20;
};

struct StepTimes {
  std::vector<double> seconds;           ///< of a step, one for each round
  std::vector<double> libtorch_seconds;  ///< of the same with libtorch's own layers and malloc;
                                         ///< none for a TorchScript file, which has no other layers
  double flops = 0;        ///< of a step: 2 for each multiply-add, forward once and backward twice
  double sgemm_flops = 0;  ///< a second, that the BLAS reaches with as many threads
};

/// Both take turns in one process, round by round, after a check that they compute the same.
///
/// Errors: those of `open_model`; `Bug` if they do not compute the same.
StepTimes time_steps(const StepBench& bench);

}  // namespace lockstep::nn
