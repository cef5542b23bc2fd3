#include "lockstep/cli/train_start.h"

#include <fmt/format.h>

#include <algorithm>
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
constexpr const char* kCpuFeatures = "--cpu-features";

bool is_one_of(const std::string& name, std::span<const char* const> names) {
  return std::ranges::find(names, name) != names.end();
}

void append(const GivenOption& option, std::vector<std::string>& to) {
  if (!option.value) {
    to.push_back(option.name);
  } else if (option.value->starts_with('-')) {  // or it would be taken for an option itself
    to.push_back(option.name + "=" + *option.value);
  } else {
    to.push_back(option.name);
    to.push_back(*option.value);
  }
}

/// "train", and the options given but for the launcher's and those that are followed already.
std::vector<std::string> trainer_arguments(const TrainArguments& arguments,
                                           std::initializer_list<const char*> followed) {
  std::vector<std::string> all{"train"};
  for (const auto& option : arguments.given) {
    const bool is_followed = option.name == kInstances || option.name == kCpuFeatures ||
                             is_one_of(option.name, kLauncherOptions) ||
                             is_one_of(option.name, std::span(followed));
    if (!is_followed) append(option, all);
  }
  return all;
}

void set_vector_unit(VectorUnit unit, topology::Environment& environment) {
  for (const auto& [name, value] : variables_for(unit)) environment.set(name, value);
}

}  // namespace

bool takes_launcher(const TrainArguments& arguments) {
  return arguments.job.run.num_instances > 1 ||
         std::ranges::any_of(arguments.given, [](const GivenOption& option) {
           return is_one_of(option.name, kLauncherOptions);
         });
}

TrainerStart start_in_job(const TrainArguments& arguments, topology::Environment environment) {
  set_vector_unit(arguments.vector_unit, environment);
  return {trainer_arguments(arguments, {}), std::move(environment)};
}

TrainerStart start_alone(const TrainArguments& arguments, const topology::Machine& machine,
                         topology::Environment environment) {
  const auto plan = launch::plan_job(arguments.job.run, launch::discover_hosts("", ""), machine);
  set_vector_unit(arguments.vector_unit, environment);
  launch::set_openmp_variables(plan, 0, environment);
  auto told = trainer_arguments(arguments, {kThreads});
  told.insert(told.end(), {kThreads, std::to_string(plan.threads_per_device)});
  return {std::move(told), std::move(environment)};
}

RunArguments train_job(const TrainArguments& arguments, const std::string& trainer) {
  auto job = arguments.job;
  job.run.command = trainer_arguments(arguments, {kThreads, kReplicas});
  job.run.command.insert(job.run.command.begin(), trainer);
  for (const auto& [name, value] : variables_for(arguments.vector_unit)) {
    job.run.environment.push_back(name + "=" + value);
  }
  return job;
}

void check_trainer_can_follow(const TrainArguments& arguments) {
  for (const auto& option : arguments.given) {
    const bool is_too_late = option.name == kInstances || option.name == kCpuFeatures ||
                             is_one_of(option.name, kLauncherOptions);
    if (!is_too_late) continue;
    throw Error(ErrorKind::Options,
                fmt::format("lockstep-train: {} has to be followed before this program starts",
                            option.name),
                fmt::format("lockstep train {}", option.name));
  }
}

}  // namespace lockstep::cli
