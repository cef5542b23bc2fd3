// Sends weights from the first instance to all instances, and averages a loss over all instances.
// Run it directly, or in four instances:
//   lockstep run --num-instances 4 mean_loss
#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <cstdio>
#include <vector>

int main() try {
  using lockstep::comm::buffer_of;
  const auto world = lockstep::World::init();

  std::vector<float> weights(1000, world.instance() == 0 ? 0.5F : 0.0F);
  world.broadcast(buffer_of(weights, "weights"), 0);

  std::vector<float> loss{weights.back() + static_cast<float>(world.instance())};
  world.all_reduce(buffer_of(loss, "loss"), lockstep::comm::ReduceOp::Mean);
  if (world.instance() == 0) {
    fmt::print("mean loss over {} instances: {}\n", world.num_instances(), loss.front());
  }
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
