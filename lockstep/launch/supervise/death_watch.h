#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/events/job_events.h"

namespace lockstep::launch {

/// Tells which of its children have ended, in the order in which they did.
///
/// `waitpid` lists dead children in the order of their birth. To find out who failed first, the
/// kernel is asked another way: it queues the pidfd of each process on an epoll set as it dies.
class DeathWatch {
 public:
  struct Death {
    pid_t pid = 0;
    events::ExitStatus status;
  };

  DeathWatch();

  /// Begins to watch a child.
  void add(pid_t pid);

  /// To be polled: readable while a watched child is dead and not taken yet.
  int fd() const noexcept { return epoll_.get(); }

  /// Reaps the watched children that have died since.
  std::vector<Death> take();

  /// Reaps the dead among all other children: orphans of the job. Returns whether any child is
  /// left.
  bool reap_others();

 private:
  UniqueFd epoll_;
  std::map<pid_t, UniqueFd> watched_;
};

}  // namespace lockstep::launch
