#include "lockstep/base/error.h"
#include "lockstep/comm/mpi/join.h"

namespace lockstep::comm::mpi {

bool is_built() noexcept {
  return false;
}

std::string_view library_version() noexcept {
  return {};
}

Joined join(const Place&, const WaitOptions&) {
  throw Error(ErrorKind::Unavailable, "mpi: this build has no MPI transport",
              "configure with -DLOCKSTEP_WITH_MPI=ON, or pass --transport tcp");
}

}  // namespace lockstep::comm::mpi
