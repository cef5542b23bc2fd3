#pragma once

#include <string>

#include "lockstep/launch/place/job_plan.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace lockstep::launch {

/// What every instance of a started job is told alike.
struct JobContext {
  std::string job_id;
  std::string run_dir;
  topology::Rendezvous rendezvous;
  topology::Environment environment;  ///< the launcher's own
  std::string events_file{};
  int kept_memory = -1;  ///< a descriptor that instances inherit
  int listener = -1;     ///< the same, for the host's first one
  /// Whether the host's first instance takes this process's place in the MPI job that started it.
  bool leader_joins_mpi = false;
  bool runs_under_agent = false;  ///< which mpirun may have started
};

/// The variables of one instance: the launcher's, those of `--env`, the contract, and the number
/// of threads for OpenMP where the user has not said one. OpenBLAS follows OpenMP's.
topology::Environment instance_environment(const JobPlan& plan, const PlannedInstance& instance,
                                           const JobContext& context, int restart_count);

/// The last of these: OMP_NUM_THREADS, and how threads of a host wait where there are more of them
/// than cores. For programs that compute without a launcher as they would with one.
void set_openmp_variables(const PlannedInstance& instance, topology::Environment& environment);

}  // namespace lockstep::launch
