#include "lockstep/base/owned_cores.h"

#include <sched.h>

#include <algorithm>

namespace lockstep {

int owned_cores() noexcept {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  return std::max(1, CPU_COUNT(&cpus));
}

}  // namespace lockstep
