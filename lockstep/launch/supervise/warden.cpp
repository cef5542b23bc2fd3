#include "lockstep/launch/supervise/warden.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/launch/supervise/descendants.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kKillInterval{20};
constexpr std::chrono::seconds kUnkillable{10};

class Warden {
 public:
  Warden(Signals& signals, pid_t supervisor) : signals_(signals), supervisor_(supervisor) {}

  events::ExitStatus watch() {
    while (!supervisor_status_) {
      pollfd fd{signals_.fd(), POLLIN, 0};
      ::poll(&fd, 1, -1);
      while (const auto signal = signals_.take()) handle(*signal);
    }
    end_what_is_left();
    return *supervisor_status_;
  }

 private:
  void handle(int signal) {
    if (signal == SIGCHLD) {
      reap();
      return;
    }
    ::kill(supervisor_, signal);
    if (signal == SIGTSTP) ::raise(SIGSTOP);
  }

  /// Returns whether there are children left.
  bool reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != supervisor_) continue;
      supervisor_status_ = to_exit_status(status);
    }
    return pid == 0;
  }

  /// Nothing, unless the supervisor was killed.
  void end_what_is_left() {
    const auto give_up = std::chrono::steady_clock::now() + kUnkillable;
    while (reap() && std::chrono::steady_clock::now() < give_up) {
      signal_all(descendants_of(::getpid()), SIGKILL);
      pollfd fd{signals_.fd(), POLLIN, 0};
      ::poll(&fd, 1, static_cast<int>(kKillInterval.count()));
      while (signals_.take()) {
      }
    }
  }

  Signals& signals_;
  pid_t supervisor_;
  std::optional<events::ExitStatus> supervisor_status_;
};

}  // namespace

events::ExitStatus run_under_warden(Signals& signals, const std::function<int(int)>& supervise) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const UniqueFd own_handle(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!own_handle) throw io_error("run: pidfd_open");

  const pid_t supervisor = ::fork();
  if (supervisor < 0) throw io_error("run: fork");
  if (supervisor == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_NAME, "lockstep-superv");
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGTTOU, SIG_IGN);  // outside the foreground group, and yet it writes to the terminal
    ::_exit(supervise(own_handle.get()));
  }
  ::setpgid(supervisor, supervisor);
  return Warden(signals, supervisor).watch();
}

}  // namespace lockstep::launch
