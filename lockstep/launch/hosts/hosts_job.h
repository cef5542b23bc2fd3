#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/tcp/secret.h"
#include "lockstep/events/job_events.h"
#include "lockstep/topology/environment.h"

namespace lockstep::launch {

/// A job over several hosts, as far as it is the same for all of them and all attempts.
struct HostsJob {
  std::vector<std::string> hosts;  ///< by name
  std::string job_id;
  comm::tcp::Secret secret;
  std::string program;                 ///< the file; empty where only hosts are checked
  std::vector<std::string> arguments;  ///< argv
  std::string folder;                  ///< that instances run in
  std::string run_dir;                 ///< the job's own, on the launcher's host
  topology::Environment environment;   ///< the launcher's own
  std::string log_dir;
  std::string events_file;
  events::Seconds grace_period{5};
  events::Seconds stall_timeout{60};
  int max_restarts = 0;
  bool joins_mpi = false;  ///< the first instance of each host takes its agent's place in MPI
};

}  // namespace lockstep::launch
