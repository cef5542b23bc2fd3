#pragma once

#include <array>
#include <string>
#include <vector>

#include "lockstep/cli/train_arguments.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/machine.h"

namespace lockstep::cli {

/// The options of `lockstep train` that are the launcher's alone, beside `--num-instances`.
inline constexpr std::array kLauncherOptions{"--bind",
                                             "--transport",
                                             "--stall-timeout",
                                             "--max-restarts",
                                             "--shrink",
                                             "--grace-period",
                                             "--chaos",
                                             "--only-output-from-instance",
                                             "--tag-output",
                                             "--verbose",
                                             "--quiet",
                                             "--host",
                                             "--hostfile",
                                             "--launcher",
                                             "--mpi-global-args",
                                             "--mpi-local-args",
                                             "--host-check-only",
                                             "--dashboard"};

/// How lockstep-train is started: what it is told, and with which variables.
struct TrainerStart {
  std::vector<std::string> arguments;
  topology::Environment environment;
};

/// Whether the job takes a launcher: several instances, or an option that is the launcher's alone.
bool takes_launcher(const TrainArguments& arguments);

/// In a process that a launcher started, with the variables of that process.
TrainerStart start_in_job(const TrainArguments& arguments, topology::Environment environment);

/// In a process that is alone. Threads are decided as the launcher would, so that results do not
/// depend on whether there is one. A plan is made so for a job of any size.
TrainerStart start_alone(const TrainArguments& arguments, const topology::Machine& machine,
                         topology::Environment environment);

/// The job that a launcher runs; `trainer` is the path of lockstep-train.
RunArguments train_job(const TrainArguments& arguments, const std::string& trainer);

/// For lockstep-train itself, which can follow neither the launcher's options nor `--cpu-features`,
/// since its libraries are loaded. Throws `Options` where one was given.
void check_trainer_can_follow(const TrainArguments& arguments);

}  // namespace lockstep::cli
