#pragma once

#include <functional>
#include <memory>

#include "lockstep/base/export.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/wait_options.h"

namespace lockstep::comm {
class Transport;
}

namespace lockstep::comm::host {
class JobMemory;
class KeptMemory;
}  // namespace lockstep::comm::host

namespace lockstep::comm::local {

/// Threads of this process that are the instances of a job: the transport `local`.
class LOCKSTEP_API LocalGroup {
 public:
  /// `kept` is memory that outlives the group, if there is any.
  explicit LocalGroup(int size, WaitOptions options = {},
                      std::shared_ptr<host::KeptMemory> kept = nullptr);

  /// Called once for each rank, on the thread that is to use it: it returns when all have come.
  std::unique_ptr<Transport> join(int rank);

 private:
  int size_;
  WaitOptions options_;
  std::shared_ptr<host::JobMemory> memory_;
  std::shared_ptr<host::KeptMemory> kept_;
};

/// Runs `function` on `size` threads, each with its communicator, and returns when all are done.
/// Throws what a thread threw: of several errors one that is not about a lost peer.
LOCKSTEP_API void run_threads(int size, const std::function<void(Communicator&)>& function,
                              const WaitOptions& options = {},
                              std::shared_ptr<host::KeptMemory> kept = nullptr);

/// The same for threads that join a group in whatever way: `join` is called on each of them.
LOCKSTEP_API void run_joined(int size,
                             const std::function<std::unique_ptr<Transport>(int rank)>& join,
                             const std::function<void(Communicator&)>& function);

}  // namespace lockstep::comm::local
