#pragma once

#include <string>

#include "lockstep/cli/run_arguments.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Options of the launcher that `run` and `train` have in common, as they are written: names of
/// choices, and flags that exclude each other.
struct LaunchArguments {
  RunArguments parsed;
  std::string bind = "auto";
  std::string transport = "auto";
  std::string tags = "auto";
  std::string chaos;
  std::string launcher = "auto";
  std::string mpi_global_args;
  std::string mpi_local_args;
  std::string dashboard;  ///< a port; empty: none is wanted
  bool verbose = false;
  bool quiet = false;
};

// Each adds options under a heading of the help.

/// --devices-per-replica
void add_stage_options(CLI::App& app, LaunchArguments& to, const std::string& group);
/// --num-instances, --threads-per-device
void add_size_options(CLI::App& app, LaunchArguments& to, const std::string& group);
/// --host, --hostfile, --launcher, --mpi-global-args, --mpi-local-args, --host-check-only
void add_host_options(CLI::App& app, LaunchArguments& to, const std::string& group);
/// --bind, --transport
void add_bind_options(CLI::App& app, LaunchArguments& to, const std::string& group);
/// --tag-output, --only-output-from-instance, --dashboard, -v, -q
void add_console_options(CLI::App& app, LaunchArguments& to, const std::string& group);
/// --max-restarts, --shrink, --stall-timeout, --grace-period, --chaos
void add_failure_options(CLI::App& app, LaunchArguments& to, const std::string& group);

/// What was meant. Throws `Options`; `where` begins the message.
RunArguments decide(const std::string& where, LaunchArguments written);

}  // namespace lockstep::cli
