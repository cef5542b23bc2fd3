#include "lockstep/comm/shm/join.h"

#include <fmt/format.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/host/host_transport.h"

namespace lockstep::comm::shm {

std::unique_ptr<Transport> join(const MeetingPlace& place, const WaitOptions& options) {
  if (place.num_instances > host::kMaxInstances) {
    throw Error(ErrorKind::Unavailable,
                fmt::format("shm: expected at most {} instances on one host, found {}",
                            host::kMaxInstances, place.num_instances));
  }
  auto member = std::make_shared<host::Member>(meet(place, options), place.instance, options);
  std::vector<int> everybody(static_cast<std::size_t>(place.num_instances));
  std::iota(everybody.begin(), everybody.end(), 0);
  return std::make_unique<host::HostTransport>(std::move(member), std::move(everybody));
}

}  // namespace lockstep::comm::shm
