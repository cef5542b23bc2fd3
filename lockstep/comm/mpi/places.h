#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/comm/hosts/host_map.h"
#include "lockstep/comm/mpi/join.h"

namespace lockstep::comm::mpi {

/// As bytes for ranks of the same build.
std::string to_bytes(const Place& place);
Place place_of(std::string_view bytes);

/// Who is on which host, from what all ranks have said.
/// Errors: `Options` where they contradict each other, or leave an instance out.
hosts::HostMap host_map_of(std::span<const Place> ranks);

}  // namespace lockstep::comm::mpi
