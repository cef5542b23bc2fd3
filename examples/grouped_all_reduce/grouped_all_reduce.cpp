// Averages several values over all instances in one operation. Run it directly, or in four
// instances:
//   lockstep run --num-instances 4 grouped_all_reduce
#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <cstdio>
#include <vector>

int main() try {
  namespace comm = lockstep::comm;
  const auto world = lockstep::World::init();

  double loss = 1.0 + world.instance();
  double accuracy = 50.0 - 10.0 * world.instance();
  std::vector<float> gradients(1000, static_cast<float>(world.instance()));

  // The buffers can have different types and lengths. Error messages contain their names.
  const std::vector<comm::Buffer> all{{&loss, 1, lockstep::DataType::F64, "loss"},
                                      {&accuracy, 1, lockstep::DataType::F64, "accuracy"},
                                      comm::buffer_of(gradients, "gradients")};
  world.all_reduce(all, comm::ReduceOp::Mean);

  if (world.instance() == 0) {
    fmt::print("over {} instances: loss {}, accuracy {}, gradients {}\n", world.num_instances(),
               loss, accuracy, gradients.back());
  }
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
