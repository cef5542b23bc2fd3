#pragma once

#include <string>

#include "bench/train/step_times.h"

namespace lockstep::bench {

/// The functions of `lockstep bench train` that need libtorch. They are in a library of their own,
/// libexec/lockstep/lockstep-bench-torch.so, which contains its own copy of lockstep. Therefore
/// they exchange plain values only: no object that holds state of lockstep crosses this interface.
struct TorchFunctions {
  StepTimes (*time_steps)(const StepBench& bench);
  /// Measures `time_updates` as one instance of a job. Instance 0 prints {"seconds": […]}.
  void (*run_update_worker)(const std::string& network, int rounds);
};

/// Loads the library on the first call. Throws `Unavailable` if it is missing, as in builds without
/// libtorch, or cannot be loaded.
const TorchFunctions& torch_functions();

/// The only symbol that the library exports.
inline constexpr const char* kTorchFunctionsSymbol = "lockstep_bench_torch_functions";
using GetTorchFunctions = const TorchFunctions*();

}  // namespace lockstep::bench
