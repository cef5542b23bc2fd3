#include "lockstep/comm/shm/join.h"

#include "lockstep/comm/host/host_transport.h"

namespace lockstep::comm::shm {

std::unique_ptr<Transport> join(const MeetingPlace& place, const WaitOptions& options) {
  auto member = std::make_shared<host::Member>(meet(place, options), place.instance, options);
  return std::make_unique<host::HostTransport>(std::move(member),
                                               host::all_instances(place.num_instances));
}

}  // namespace lockstep::comm::shm
