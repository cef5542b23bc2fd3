#include "lockstep/comm/shm/join.h"

#include "lockstep/comm/host/host_transport.h"

namespace lockstep::comm::shm {

std::unique_ptr<Transport> join(const MeetingPlace& place, const WaitOptions& options) {
  return std::make_unique<host::HostTransport>(meet(place, options),
                                               host::all_instances(place.num_instances));
}

}  // namespace lockstep::comm::shm
