// Prints the place of this process in its job. Run it directly, or in four instances:
//   lockstep run --num-replicas 8 --num-instances 4 hello
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lockstep/lockstep.h>

#include <cstdio>

int main() try {
  const auto world = lockstep::World::init();
  const int first = world.first_replica();
  fmt::print("hello from instance {} of {}: replicas {} to {} of {}, devices {}\n",
             world.instance(), world.num_instances(), first, first + world.num_local_replicas() - 1,
             world.num_replicas(), fmt::join(world.device_ids(), ","));
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
