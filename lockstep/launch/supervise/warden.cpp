#include "lockstep/launch/supervise/warden.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/launch/supervise/descendants.h"

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// A little more than to the supervisor, so that a second signal that is handed on is a second one
/// there too, though it had the first a moment later.
constexpr auto kSameSignalHere = kSameSignal + std::chrono::milliseconds(50);

/// How much longer than it may the supervisor is given to end a job that it was told to end.
constexpr std::chrono::seconds kMargin{2};

class Warden {
 public:
  Warden(Signals& signals, pid_t supervisor, events::Seconds grace)
      : signals_(signals), supervisor_(supervisor), grace_(grace) {}

  events::ExitStatus watch() {
    while (!supervisor_status_) {
      wait_for_signal(time_left());
      while (const auto signal = signals_.take()) handle(*signal);
      if (deadline_ && Clock::now() >= *deadline_) ::kill(supervisor_, SIGKILL);
    }
    end_what_is_left();
    return *supervisor_status_;
  }

 private:
  void wait_for_signal(std::chrono::milliseconds timeout) const {
    pollfd fd{signals_.fd(), POLLIN, 0};
    ::poll(&fd, 1, static_cast<int>(timeout.count()));
  }

  std::chrono::milliseconds time_left() const {
    using std::chrono::milliseconds;
    if (!deadline_) return milliseconds(-1);
    return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*deadline_ - Clock::now()));
  }

  void handle(int signal) {
    if (signal == SIGCHLD) reap();
    if (signal == SIGCHLD || supervisor_status_) return;
    if (ends_job(signal) && !expect_end(signal)) return;
    ::kill(supervisor_, signal);
    if (signal == SIGTSTP) ::raise(SIGSTOP);
  }

  /// The supervisor may hang on a disk, or be stopped: then it is killed, and its work done here.
  /// Returns false for a repetition that does not count.
  bool expect_end(int signal) {
    const auto now = Clock::now();
    const bool is_repeated = last_end_signal_ && now - *last_end_signal_ < kSameSignalHere;
    if (is_repeated && signal != SIGQUIT) return false;
    const auto grace = last_end_signal_ || signal == SIGQUIT ? events::Seconds(0) : grace_;
    const auto end = now + std::chrono::duration_cast<Clock::duration>(grace) + kMargin;
    deadline_ = std::min(deadline_.value_or(end), end);
    last_end_signal_ = now;
    return true;
  }

  /// Returns whether there are children left.
  bool reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid == supervisor_) supervisor_status_ = to_exit_status(status);
    }
    return pid == 0;
  }

  /// Nothing, unless the supervisor was killed.
  void end_what_is_left() {
    const auto give_up = Clock::now() + kUnkillable;
    while (reap() && Clock::now() < give_up) {
      kill_descendants();
      wait_for_signal(kKillInterval);
      while (signals_.take()) {
      }
    }
  }

  Signals& signals_;
  pid_t supervisor_;
  events::Seconds grace_;
  std::optional<events::ExitStatus> supervisor_status_;
  std::optional<Clock::time_point> last_end_signal_;
  std::optional<Clock::time_point> deadline_;  ///< for the supervisor to have ended the job
};

}  // namespace

events::ExitStatus run_under_warden(Signals& signals, events::Seconds grace,
                                    const std::function<int(int)>& supervise) {
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
  return Warden(signals, supervisor, grace).watch();
}

}  // namespace lockstep::launch
