#include "lockstep/comm/mpi/check_mpi.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm::mpi {

std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (::MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fmt::format("error {}", code);
  return {text, static_cast<std::size_t>(length)};
}

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  throw Error(ErrorKind::Io, fmt::format("mpi: {}: {}", call, mpi_text(code)),
              "see what mpirun says about it, or pass --transport tcp");
}

}  // namespace lockstep::comm::mpi
