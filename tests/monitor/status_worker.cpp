// An instance that publishes its status, for tests that look at it from another process.
//
//   status_worker wait            publishes one step, says "ready" and its job, and stays until it
//   is killed status_worker hurry           publishes as fast as it can, until it is killed
//   status_worker end             publishes and ends as it should

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "lockstep/monitor/status/status_publisher.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace lockstep {
namespace {

/// Every number follows from the first, so that parts of two updates cannot pass for one.
events::StepsDone step_number(std::int64_t number) {
  const auto value = static_cast<double>(number);
  return {.epoch = number + 1,
          .step = number + 2,
          .steps_of_epoch = number + 3,
          .samples = 1,
          .loss = value + 0.5,
          .accuracy = value + 0.25,
          .seconds = {.data = 1, .compute = 2, .reduce = 3, .idle = 4}};
}

void hurry(monitor::StatusPublisher& publisher) {
  std::int64_t number = 1;
  publisher.on(step_number(number));
  std::puts("ready");
  std::fflush(stdout);
  while (true) publisher.on(step_number(++number));
}

int run(std::string_view how) {
  const auto environment = topology::Environment::of_this_process();
  monitor::StatusPublisher publisher(topology::read_identity(environment), environment,
                                     monitor::DeviceKind::Cpu);
  if (!publisher.problem().empty()) {
    std::fprintf(stderr, "%s\n", publisher.problem().c_str());
    return 1;
  }
  publisher.enter(events::Phase::Training);
  if (how == "hurry") hurry(publisher);
  publisher.on({.epoch = 2,
                .step = 120,
                .steps_of_epoch = 782,
                .samples = 64,
                .loss = 1.25,
                .accuracy = 48.5,
                .seconds = {.data = 1, .compute = 20, .reduce = 3, .idle = 0.5}});
  publisher.enter_collective("all_reduce");
  std::printf("ready %s\n", publisher.job().c_str());
  std::fflush(stdout);
  while (how == "wait") ::pause();
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::run(argc > 1 ? argv[1] : "wait");
}
