#include "lockstep/launch/start/instance_environment.h"

#include "lockstep/base/strings.h"
#include "lockstep/launch/hosts/host_environment.h"

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
  if (context.runs_under_agent) {
    // One process alone can take the agent's place in an MPI job.
    const bool joins_mpi = context.leader_joins_mpi && instance.identity.local_instance == 0;
    for (const auto& [name, value] : context.environment.variables()) {
      if (belongs_to_mpi(name) && !joins_mpi) environment.remove(name);
    }
  }
  for (const auto& [name, value] : plan.environment) environment.set(name, value);

  auto identity = instance.identity;
  identity.job_id = context.job_id;
  identity.run_dir = context.run_dir;
  identity.restart_count = restart_count;
  if (!context.events_file.empty()) identity.events_file = context.events_file;
  if (context.kept_memory >= 0) identity.kept_memory = context.kept_memory;
  if (context.listener >= 0 && identity.local_instance == 0) identity.listener = context.listener;
  write_identity(environment, identity, context.rendezvous);
  set_openmp_variables(instance, environment);
  return environment;
}

void set_openmp_variables(const PlannedInstance& instance, topology::Environment& environment) {
  environment.set_if_absent("OMP_NUM_THREADS",
                            std::to_string(instance.identity.threads_per_device.value_or(1)));
  // Threads that spin while they wait take the core from the ones they wait for.
  const auto threads = parse_integer(*environment.get("OMP_NUM_THREADS"));
  if (threads.value_or(1) * instance.stages_on_host > instance.usable_cores) {
    environment.set_if_absent("OMP_WAIT_POLICY", "passive");
  }
}

}  // namespace lockstep::launch
