#include <fmt/format.h>

#include "lockstep/base/version.h"
#include "lockstep/comm/mpi/module.h"

namespace lockstep::comm::mpi {

std::string build_name() {
  return fmt::format("{} (interface {}, {}{}{})", version(), LOCKSTEP_MPI_INTERFACE,
                     build_description(), sanitizers().empty() ? "" : ", ", sanitizers());
}

}  // namespace lockstep::comm::mpi
