#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/tcp/addresses.h"

namespace lockstep::launch {

/// The own address of this machine on the way to another; empty where there is no way.
using Way = std::function<std::string(const std::string& address)>;

/// What to listen at so that agents on all hosts can connect, given the addresses of each host.
/// Those of the loopback device come last: an agent takes the first that answers, and what it was
/// reached at is what other hosts are to reach it at.
std::vector<std::string> listening_addresses(const std::vector<std::vector<std::string>>& hosts,
                                             const Way& way = comm::tcp::address_towards);

/// Decides at what address each host is reached by the others, given what is known; an empty one is
/// not. Only an agent of this machine has none, or one of the loopback device: where other hosts
/// have better ones, it gets that of the way to them.
std::vector<std::string> addresses_for_all(std::vector<std::string> known,
                                           const Way& way = comm::tcp::address_towards);

}  // namespace lockstep::launch
