#include "lockstep/launch/start/instance_environment.h"

#include "lockstep/base/strings.h"

namespace lockstep::launch {

topology::Environment instance_environment(const JobPlan& plan, const PlannedInstance& instance,
                                           const JobContext& context, int restart_count) {
  auto environment = context.environment;
  // In a job within a job, the outer launcher's choice is not the user's.
  if (const auto outer = environment.get("LOCKSTEP_THREADS_PER_DEVICE");
      outer && environment.get("OMP_NUM_THREADS") == outer) {
    environment.remove("OMP_NUM_THREADS");
    environment.remove("OMP_WAIT_POLICY");
  }
  for (const auto& [name, value] : plan.environment) environment.set(name, value);

  auto identity = instance.identity;
  identity.job_id = context.job_id;
  identity.run_dir = context.run_dir;
  identity.restart_count = restart_count;
  if (!context.events_file.empty()) identity.events_file = context.events_file;
  if (context.kept_memory >= 0) identity.kept_memory = context.kept_memory;
  write_identity(environment, identity, context.rendezvous);

  const auto& place = plan.placement.instances[static_cast<std::size_t>(identity.instance)];
  set_openmp_variables(plan, place.host, environment);
  return environment;
}

void set_openmp_variables(const JobPlan& plan, int host, topology::Environment& environment) {
  environment.set_if_absent("OMP_NUM_THREADS", std::to_string(plan.threads_per_device));
  // Threads that spin while they wait take the core from the ones they wait for.
  const auto threads = parse_integer(*environment.get("OMP_NUM_THREADS"));
  if (threads.value_or(1) * plan.placement.stages_on_host(host) > plan.usable_cores) {
    environment.set_if_absent("OMP_WAIT_POLICY", "passive");
  }
}

}  // namespace lockstep::launch
