// A process that `lockstep bench launch` measures: it meets the other instances once, as
// torch_meet.py does in Python.

#include <fmt/format.h>

#include <vector>

#include "bench/driver/commands.h"
#include "lockstep/comm/world.h"

namespace lockstep::bench {

void meet() {
  const auto world = World::init();
  std::vector<float> ones{1.0F};
  world.all_reduce(comm::buffer_of(ones));
  fmt::print("met {}\n", ones.front());
}

}  // namespace lockstep::bench
