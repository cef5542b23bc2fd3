#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/cli/run_arguments.h"
#include "lockstep/launch/engine/engine.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/host_list.h"

namespace lockstep::cli {

/// The hosts that a job takes, and who starts it there.
struct HostsPlan {
  std::vector<topology::Host> all;   ///< that were named
  std::vector<topology::Host> used;  ///< of them, that carry instances or are to be checked
  launch::EngineKind engine = launch::EngineKind::Local;

  /// Whether this process alone can run the job, without agents.
  bool is_this_process() const { return engine == launch::EngineKind::Local && used.size() == 1; }
};

/// Decides it. Throws `Options` or `Unavailable`.
HostsPlan plan_hosts(const RunArguments& arguments, const topology::Environment& environment);

/// What starts the agents of a job.
std::unique_ptr<launch::Engine> engine_of(const RunArguments& arguments, const HostsPlan& hosts,
                                          const topology::Environment& environment);

/// What a dry run shows of it: who starts the job, what carries its collectives, and the command
/// lines.
std::string describe_engine(const RunArguments& arguments, const launch::Engine& engine,
                            const HostsPlan& hosts);

/// Starts agents, checks the hosts and runs the job there, or only checks. Returns the exit code.
int run_on_hosts(const RunArguments& arguments, const HostsPlan& hosts,
                 const topology::Environment& environment);

}  // namespace lockstep::cli
