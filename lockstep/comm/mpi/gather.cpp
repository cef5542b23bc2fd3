#include "lockstep/comm/mpi/gather.h"

#include <mpi.h>

#include <numeric>

#include "lockstep/comm/mpi/check_mpi.h"
#include "lockstep/comm/mpi/places.h"

namespace lockstep::comm::mpi {

std::vector<Place> gather_places(const Place& own) {
  int num_ranks = 0;
  check_mpi(::MPI_Comm_size(MPI_COMM_WORLD, &num_ranks), "MPI_Comm_size");
  const auto bytes = to_bytes(own);
  const int own_size = static_cast<int>(bytes.size());
  std::vector<int> sizes(static_cast<std::size_t>(num_ranks));
  check_mpi(::MPI_Allgather(&own_size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD),
            "MPI_Allgather");
  std::vector<int> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::string all(static_cast<std::size_t>(offsets.back() + sizes.back()), '\0');
  check_mpi(::MPI_Allgatherv(bytes.data(), own_size, MPI_BYTE, all.data(), sizes.data(),
                             offsets.data(), MPI_BYTE, MPI_COMM_WORLD),
            "MPI_Allgatherv");
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto begin = static_cast<std::size_t>(offsets[rank]);
    places.push_back(
        place_of(std::string_view(all).substr(begin, static_cast<std::size_t>(sizes[rank]))));
  }
  return places;
}

}  // namespace lockstep::comm::mpi
