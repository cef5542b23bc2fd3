#include "tests/comm/worker_job.h"

#include <gtest/gtest.h>

namespace lockstep::testing {

WorkerJob::WorkerJob(std::vector<std::string> arguments, Options options)
    : command_{COMM_WORKER_BINARY} {
  static int number = 0;  // several jobs may run at the same time
  command_.insert(command_.end(), arguments.begin(), arguments.end());
  const int world_size = options.world_size == 0 ? options.instances : options.world_size;
  environment_ = {{"WORLD_SIZE", std::to_string(world_size)},
                  {"MASTER_ADDR", unique_mark("meeting" + std::to_string(++number))},
                  {"MASTER_PORT", "1"},
                  {"LOCKSTEP_STALL_TIMEOUT", options.stall_timeout}};
  for (int rank = 0; rank < options.instances; ++rank) processes_.push_back(start_again(rank));
}

void WorkerJob::wait_until_ready() {
  for (auto& process : processes_) ASSERT_TRUE(process->wait_for("ready"));
}

std::unique_ptr<Subprocess> WorkerJob::start_again(int rank,
                                                   std::map<std::string, std::string> other) {
  auto environment = environment_;
  environment["RANK"] = std::to_string(rank);
  for (const auto& [name, value] : other) environment[name] = value;
  return std::make_unique<Subprocess>(command_, SubprocessOptions{.environment = environment});
}

}  // namespace lockstep::testing
