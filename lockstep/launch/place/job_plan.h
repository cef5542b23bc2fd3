#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/events/job_events.h"
#include "lockstep/launch/engine/engine.h"
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
  EngineKind launcher = EngineKind::Auto;
  std::vector<std::string> mpi_global_args{};
  std::vector<std::string> mpi_local_args{};
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
  int stages_on_host = 1;  ///< that all instances of its host compute
  int usable_cores = 1;    ///< of its host
};

/// The job, with every value decided: nothing is left to default at run time.
struct JobPlan {
  topology::Placement placement;
  int threads_per_device = 1;
  std::vector<PlannedInstance> instances;
  std::vector<std::pair<std::string, std::string>> environment;  ///< from `--env`
};

/// Decides where everything runs, with the machine of each host. Throws `Options`.
JobPlan plan_job(const RunOptions& options, std::vector<topology::Host> hosts,
                 std::span<const topology::Machine> machines);

/// The same for hosts that are all alike, or taken to be.
JobPlan plan_job(const RunOptions& options, std::vector<topology::Host> hosts,
                 const topology::Machine& machine);

/// Which instances go where, before any machine is known. Throws `Options`.
topology::Placement place_job(const RunOptions& options, std::vector<topology::Host> hosts);

}  // namespace lockstep::launch
