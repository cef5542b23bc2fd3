#pragma once

#include <memory>
#include <string>

#include "lockstep/comm/host/member.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::shm {

/// Where the instances of one host find each other. The first of them listens on a socket that only
/// processes of the same user can use, and hands the job's memory to each of the others.
struct MeetingPlace {
  /// A folder of this job's own, which no other user can enter; or empty.
  std::string folder;
  /// What sets this start of the job apart from all others on the host.
  std::string session;
  int instance = 0;  ///< its number in the job, as all that follow
  int num_instances = 1;
  int local_instance = 0;  ///< and that on this host; 0 is the host's leader, which listens
  int num_local_instances = 1;
  std::string host{};  ///< as messages name it; empty: as the machine names itself
  /// What outlives the instances, where the launcher keeps it.
  std::shared_ptr<host::KeptMemory> kept{};
};

/// Makes this process the instance that it is to be. It returns when all instances of this host
/// have come; but where they are all of the job, so that everybody knows who they are, only the
/// first one waits. `JobMemory::introduced` says who they are.
/// Errors: `Timeout` naming who has not come; `Options` where two processes claim one place, or are
/// built with another lockstep; `Unavailable` where another user is met.
std::shared_ptr<host::Member> meet(const MeetingPlace& place, const WaitOptions& options);

}  // namespace lockstep::comm::shm
