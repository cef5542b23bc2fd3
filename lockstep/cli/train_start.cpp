#include "lockstep/cli/train_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/launch/start/instance_environment.h"

namespace lockstep::cli {
namespace {

constexpr const char* kInstances = "--num-instances";
constexpr const char* kThreads = "--threads-per-device";
constexpr const char* kReplicas = "--replicas";
constexpr const char* kDevices = "--devices-per-replica";
constexpr const char* kCpuFeatures = "--cpu-features";
constexpr const char* kCachePath = "--cache-path";
constexpr const char* kCacheVariable = "LOCKSTEP_CACHE_PATH";

bool is_one_of(const std::string& name, std::span<const char* const> names) {
  return std::ranges::find(names, name) != names.end();
}

void append(const GivenOption& option, std::vector<std::string>& to) {
  if (!option.value) {
    to.push_back(option.name);
  } else if (option.is_flag || option.value->starts_with('-')) {
    // What follows a flag may be no value of it, and what has a dash is an option itself.
    to.push_back(option.name + "=" + *option.value);
  } else {
    to.push_back(option.name);
    to.push_back(*option.value);
  }
}

bool is_launchers(const GivenOption& option) {
  return option.name == kInstances || is_one_of(option.name, kLauncherOptions);
}

/// Whether the program that is told of it would be told too late. A plan is made for a launcher
/// that is not there: its options are for whoever makes the plan.
bool is_too_late(const GivenOption& option, TrainCommand command) {
  return option.name == kCpuFeatures || (command != TrainCommand::Plan && is_launchers(option));
}

/// The name of the command, and the options given but for those that are followed already.
std::vector<std::string> trainer_arguments(const TrainArguments& arguments,
                                           std::initializer_list<const char*> followed) {
  std::vector<std::string> all{std::string(name_of(arguments.command))};
  for (const auto& option : arguments.given) {
    const bool is_followed = option.name == kCachePath || is_too_late(option, arguments.command) ||
                             is_one_of(option.name, std::span(followed));
    if (!is_followed) append(option, all);
  }
  return all;
}

/// What has to be known before libraries load, or by all that they start.
void set_variables(const TrainArguments& arguments, topology::Environment& environment) {
  for (const auto& [name, value] : variables_for(arguments.vector_unit)) {
    environment.set(name, value);
  }
  const auto& cache = arguments.job.run.cache_path;
  if (!cache.empty()) environment.set(kCacheVariable, std::filesystem::absolute(cache).string());
}

}  // namespace

bool takes_launcher(const TrainArguments& arguments) {
  return arguments.job.run.num_instances > 1 ||
         std::ranges::any_of(arguments.given, [](const GivenOption& option) {
           return is_one_of(option.name, kLauncherOptions);
         });
}

TrainerStart start_in_job(const TrainArguments& arguments, topology::Environment environment) {
  set_variables(arguments, environment);
  return {trainer_arguments(arguments, {}), std::move(environment)};
}

TrainerStart start_alone(const TrainArguments& arguments, const topology::Machine& machine,
                         topology::Environment environment) {
  auto run = arguments.job.run;
  if (arguments.command == TrainCommand::Eval) {
    run.threads_per_device = arguments.request.threads_per_device.value_or(1);
  }
  const auto plan = launch::plan_job(run, launch::discover_hosts("", ""), machine);
  set_variables(arguments, environment);
  launch::set_openmp_variables(plan.instances.front(), environment);
  auto told = trainer_arguments(arguments, {kThreads, kDevices});
  if (const int devices = arguments.job.run.devices_per_replica; devices > 1) {
    told.insert(told.end(), {kDevices, std::to_string(devices)});
  }
  told.insert(told.end(), {kThreads, std::to_string(plan.threads_per_device)});
  return {std::move(told), std::move(environment)};
}

RunArguments train_job(const TrainArguments& arguments, const std::string& trainer) {
  auto job = arguments.job;
  // The launcher decides these for a training. An evaluation decides them by itself.
  job.run.command = arguments.command == TrainCommand::Eval
                        ? trainer_arguments(arguments, {})
                        : trainer_arguments(arguments, {kThreads, kReplicas, kDevices});
  job.run.command.insert(job.run.command.begin(), trainer);
  for (const auto& [name, value] : variables_for(arguments.vector_unit)) {
    job.run.environment.push_back(name + "=" + value);
  }
  return job;
}

void check_trainer_can_follow(const TrainArguments& arguments) {
  for (const auto& option : arguments.given) {
    if (!is_too_late(option, arguments.command)) continue;
    throw Error(ErrorKind::Options,
                fmt::format("lockstep-train: {} has to be followed before this program starts",
                            option.name),
                fmt::format("lockstep {} {}", name_of(arguments.command), option.name));
  }
}

}  // namespace lockstep::cli
