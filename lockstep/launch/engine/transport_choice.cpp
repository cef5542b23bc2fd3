#include "lockstep/launch/engine/transport_choice.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/mpi/join.h"

namespace lockstep::launch {

using topology::TransportKind;

topology::TransportKind choose_transport(const RunOptions& options, EngineKind engine) {
  const auto wanted = options.transport;
  const bool is_mpirun = engine == EngineKind::Mpirun;
  if (wanted == TransportKind::Auto) {
    const bool takes_mpi = is_mpirun && options.max_restarts == 0 && comm::mpi::is_built();
    return takes_mpi ? TransportKind::Mpi : TransportKind::Tcp;
  }
  if (wanted == TransportKind::Local || wanted == TransportKind::Shm) {
    throw Error(ErrorKind::Options,
                fmt::format("run: --transport {} stays within one host, but the job is on several",
                            name_of(wanted)),
                "--transport tcp");
  }
  if (wanted == TransportKind::Mpi && !is_mpirun) {
    throw Error(
        ErrorKind::Options,
        fmt::format("run: --transport mpi needs mpirun to start the job, found --launcher {}",
                    name_of(engine)),
        "--launcher mpirun, or --transport tcp");
  }
  if (wanted == TransportKind::Mpi && options.max_restarts > 0) {
    throw Error(ErrorKind::Options,
                fmt::format("run: --transport mpi cannot go with --max-restarts {}: MPI ends every "
                            "rank when one dies",
                            options.max_restarts),
                "--transport tcp");
  }
  return wanted;
}

void check_fits_hosts(const RunOptions& options) {
  const auto refuse = [](bool is_wanted, const char* option) {
    if (!is_wanted) return;
    throw Error(
        ErrorKind::Options,
        fmt::format("run: {} is for jobs on this machine alone, but this one has agents", option),
        fmt::format("leave {} out, or run the job on this machine without --launcher", option));
  };
  refuse(options.chaos.has_value(), "--chaos");
  refuse(options.shrink, "--shrink");
}

}  // namespace lockstep::launch
