#include "lockstep/comm/mpi/join.h"

#include "lockstep/base/error.h"

namespace lockstep::comm::mpi {

bool is_built() noexcept { return false; }

Joined join(const std::vector<int>&, int, const std::string&, const WaitOptions&) {
  throw Error(ErrorKind::Unavailable, "mpi: this build has no MPI transport",
              "configure with -DLOCKSTEP_WITH_MPI=ON, or pass --transport tcp");
}

}  // namespace lockstep::comm::mpi
