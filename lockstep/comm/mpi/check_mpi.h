#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

namespace lockstep::comm::mpi {

/// What MPI says of an error code.
std::string mpi_text(int code);

/// Throws an `Io` error unless MPI says that it went well.
void check_mpi(int code, std::string_view call);

}  // namespace lockstep::comm::mpi
