#include "lockstep/launch/supervise/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

bool ends_job(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

Signals::Signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    if (!is_ignored(signal)) ::sigaddset(&set, signal);
  }
  ::sigaddset(&set, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &set, &original_);
  // An ignored SIGCHLD, which a parent may have left us, would hide how our children ended.
  ::signal(SIGCHLD, SIG_DFL);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw io_error("run: signalfd");
}

std::optional<int> Signals::take() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace lockstep::launch
