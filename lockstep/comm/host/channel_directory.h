#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/host/member.h"

namespace lockstep::comm::host {

struct ChannelKey {
  std::uint64_t parent;
  int maker;                   ///< the first instance on this host
  std::vector<int> instances;  ///< ascending; also those on other hosts
};

/// The offset of a channel in the job's memory. The first instance on this host makes it; the
/// others wait until it has. Errors: `PeerLost`, `Timeout`; `Unavailable` where there are too many
/// groups or too little memory, on every instance.
std::uint64_t find_channel(Member& member, const ChannelKey& key, std::size_t bytes);

}  // namespace lockstep::comm::host
