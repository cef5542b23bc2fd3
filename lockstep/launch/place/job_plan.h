#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/events/job_events.h"
#include "lockstep/launch/supervise/chaos.h"
#include "lockstep/topology/identity.h"
#include "lockstep/topology/machine.h"
#include "lockstep/topology/placement.h"

namespace lockstep::launch {

/// What the user asked for. What is unset, `plan_job()` decides.
struct RunOptions {
  std::optional<int> num_replicas;
  int num_instances = 1;
  int devices_per_replica = 1;
  std::optional<int> threads_per_device;
  std::string host_list;
  std::string hostfile;
  topology::BindPolicy bind = topology::BindPolicy::Auto;
  int max_restarts = 0;
  bool shrink = false;
  events::Seconds stall_timeout{60};
  topology::TransportKind transport = topology::TransportKind::Auto;
  events::Seconds grace_period{5};
  std::optional<ChaosOptions> chaos{};
  std::string log_dir;
  std::string cache_path;
  std::vector<std::string> environment;  ///< "NAME=value"
  std::vector<std::string> command;
};

/// One process of the job, with everything decided.
struct PlannedInstance {
  topology::Identity identity;
  std::string host;
  std::vector<int> cores;  ///< of the host, that it is bound to; empty: it is free
  std::vector<int> cpus;   ///< the same as the operating system numbers them
};

/// The job, with every value decided: nothing is left to default at run time.
struct JobPlan {
  topology::Placement placement;
  int threads_per_device = 1;
  int usable_cores = 1;  ///< of each host
  std::vector<PlannedInstance> instances;
  std::vector<std::pair<std::string, std::string>> environment;  ///< from `--env`
};

/// Decides where everything runs. Hosts other than this one are taken to be like `machine`.
/// Throws `Options`.
JobPlan plan_job(const RunOptions& options, std::vector<topology::Host> hosts,
                 const topology::Machine& machine);

}  // namespace lockstep::launch
