// A program for tests that run collectives in real processes: `comm_worker <what> [arguments]`.

#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/world.h"
#include "tests/comm/collective_checks.h"

namespace lockstep::testing {
namespace {

using Arguments = std::vector<std::string>;

void say(const std::string& line) {
  const auto whole = line + "\n";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, whole.data(), whole.size());
}

void every_collective(const World& world, const Arguments&) {
  for (const auto& collective : all_collectives()) {
    check_collective(world.communicator(), collective);
  }
}

void leaves(const World& world, const Arguments& arguments) {
  const int num_leaves = std::stoi(arguments.at(0));
  for (const auto type :
       {DataType::F16, DataType::BF16, DataType::F32, DataType::F64, DataType::I32}) {
    for (const auto op : {comm::ReduceOp::Sum, comm::ReduceOp::Mean}) {
      check_leaves(world.communicator(), type, op, 100003, num_leaves);
    }
  }
}

void mixture(const World& world, const Arguments& arguments) {
  check_mixture(world.communicator(), std::stoi(arguments.at(0)), 11);
}

/// All-reduces until something ends it.
void stream(const World& world, const Arguments&) {
  std::vector<float> values(3000, 1.0F);
  world.barrier();
  say(fmt::format("ready {}", ::getpid()));
  while (true) {
    world.all_reduce(comm::buffer_of(values, "gradients"), comm::ReduceOp::Mean);
    world.barrier();
  }
}

/// One instance is busy for long; it says so, or not.
void late(const World& world, const Arguments& arguments) {
  const double seconds = std::stod(arguments.at(0));
  const bool beats = arguments.at(1) == "beating";
  std::vector<float> values(10, 1.0F);
  world.all_reduce(comm::buffer_of(values));
  if (world.instance() == 1) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
      if (beats) world.communicator().heartbeat("evaluating");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  world.all_reduce(comm::buffer_of(values, "layer3"));
  say("done");
}

/// Instances disagree on the operation.
void disagree(const World& world, const Arguments&) {
  std::vector<float> values(world.instance() == 1 ? 512 : 1024, 1.0F);
  world.barrier();
  world.all_reduce(comm::buffer_of(values, "gradients"));
}

void leave_early(const World& world, const Arguments&) {
  world.barrier();
  if (world.instance() == 1) return;
  world.barrier();
}

void allocate_too_much(const World& world, const Arguments&) {
  world.communicator().allocate(std::size_t{1} << 50, "huge");
}

const std::map<std::string, std::function<void(const World&, const Arguments&)>> kPrograms{
    {"every_collective", every_collective},
    {"leaves", leaves},
    {"mixture", mixture},
    {"stream", stream},
    {"late", late},
    {"disagree", disagree},
    {"leave_early", leave_early},
    {"allocate_too_much", allocate_too_much},
};

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    lockstep::testing::kPrograms.at(arguments.at(0))(lockstep::World::init(),
                                                     {arguments.begin() + 1, arguments.end()});
    return 0;
  } catch (const lockstep::Error& error) {
    std::cerr << lockstep::describe(error) << std::flush;
    return lockstep::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
