#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/hosts/host_map.h"

namespace lockstep::comm::mpi {

/// What a rank of the MPI job says of itself.
struct RankFacts {
  int instance = 0;
  std::vector<int> local_instances;  ///< of its host, ascending; the first is the leader
  std::string host_name;

  bool is_leader() const { return local_instances.front() == instance; }
};

/// As bytes for ranks of the same build.
std::string to_bytes(const RankFacts& facts);
RankFacts facts_of(std::string_view bytes);

/// Who is on which host, from what all ranks have said.
/// Errors: `Options` where they contradict each other, or leave an instance out.
hosts::HostMap host_map_of(std::span<const RankFacts> ranks);

}  // namespace lockstep::comm::mpi
