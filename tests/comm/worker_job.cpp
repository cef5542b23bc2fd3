#include "tests/comm/worker_job.h"

namespace lockstep::testing {

WorkerJob::WorkerJob(std::vector<std::string> arguments, Options options)
    : command_{COMM_WORKER_BINARY} {
  command_.insert(command_.end(), arguments.begin(), arguments.end());
  const int world_size = options.world_size == 0 ? options.instances : options.world_size;
  environment_ = {{"WORLD_SIZE", std::to_string(world_size)},
                  {"MASTER_ADDR", unique_mark("meeting")},
                  {"MASTER_PORT", "1"},
                  {"LOCKSTEP_STALL_TIMEOUT", options.stall_timeout}};
  for (int rank = 0; rank < options.instances; ++rank) processes_.push_back(start_again(rank));
}

std::unique_ptr<Subprocess> WorkerJob::start_again(int rank,
                                                   std::map<std::string, std::string> other) {
  auto environment = environment_;
  environment["RANK"] = std::to_string(rank);
  for (const auto& [name, value] : other) environment[name] = value;
  return std::make_unique<Subprocess>(command_, SubprocessOptions{.environment = environment});
}

}  // namespace lockstep::testing
