#include "lockstep/launch/supervise/death_watch.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "lockstep/base/error.h"
#include "lockstep/launch/supervise/descendants.h"

namespace lockstep::launch {

DeathWatch::DeathWatch() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw io_error("run: epoll_create");
}

void DeathWatch::add(pid_t pid) {
  UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = pid;
  if (!handle || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, handle.get(), &event) != 0) {
    throw io_error("run: watch over a process");
  }
  watched_[pid] = std::move(handle);
}

std::vector<DeathWatch::Death> DeathWatch::take() {
  std::vector<Death> deaths;
  std::array<epoll_event, 64> events;
  int count = 0;
  while ((count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0)) > 0) {
    for (int i = 0; i < count; ++i) {
      const pid_t pid = events[static_cast<std::size_t>(i)].data.fd;
      int status = 0;
      ::waitpid(pid, &status, 0);
      watched_.erase(pid);  // closing the pidfd takes it off the set
      deaths.push_back({pid, to_exit_status(status)});
    }
  }
  return deaths;
}

bool DeathWatch::reap_others() {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
      return false;  // no child at all
    const bool is_for_take = info.si_pid != 0 && watched_.contains(info.si_pid);
    if (info.si_pid == 0 || is_for_take) return true;
    ::waitpid(info.si_pid, nullptr, 0);
  }
}

}  // namespace lockstep::launch
