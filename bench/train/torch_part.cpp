// The library that torch_functions.h loads.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/train/torch_functions.h"
#include "bench/train/update_times.h"
#include "lockstep/comm/world.h"

namespace lockstep::bench {
namespace {

void run_update_worker(const std::string& network, int rounds) {
  const auto world = World::init();
  const auto seconds = time_updates(world, network, rounds);
  if (world.instance() == 0) {
    fmt::print("{{\"seconds\": [{:.9f}]}}\n", fmt::join(seconds, ", "));
  }
}

}  // namespace
}  // namespace lockstep::bench

extern "C" [[gnu::visibility("default")]] const lockstep::bench::TorchFunctions*
lockstep_bench_torch_functions() {
  static constexpr lockstep::bench::TorchFunctions functions{lockstep::bench::time_steps,
                                                             lockstep::bench::run_update_worker};
  return &functions;
}
