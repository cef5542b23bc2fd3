#include "bench/comm/launcher_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/launch/start/spawn.h"
#include "lockstep/launch/supervise/descendants.h"

namespace lockstep::bench {

using namespace std::chrono_literals;

int poll_uninterrupted(std::span<pollfd> fds, std::chrono::milliseconds time) {
  int ready = 0;
  do {
    ready = ::poll(fds.data(), fds.size(), static_cast<int>(time.count()));
  } while (ready < 0 && errno == EINTR);
  return ready;
}

LauncherProcess::LauncherProcess(const std::vector<std::string>& command,
                                 const topology::Environment& environment) {
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  launch::SpawnRequest request{
      .program = launch::find_program(command.front(), environment),
      .arguments = command,
      .environment = environment.to_strings(),
      .stdin_fd = nothing.get(),
      .stdout_fd = STDERR_FILENO,
      .stderr_fd = STDERR_FILENO,
      .cpus = {},
  };
  ::sigprocmask(SIG_SETMASK, nullptr, &request.signal_mask);
  ::getrlimit(RLIMIT_NOFILE, &request.descriptors);

  auto spawned = launch::spawn(request);
  pid_ = spawned.pid();
  handle_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!handle_) throw io_error("bench: pidfd_open");
  spawned.execute(request.program);
}

LauncherProcess::~LauncherProcess() {
  // Longer than the grace period of `lockstep run`, after which it kills the instances.
  constexpr auto kGrace = 10s;
  if (status_) return;
  ::kill(pid_, SIGTERM);
  if (wait_for(kGrace)) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<events::ExitStatus> LauncherProcess::wait_for(std::chrono::milliseconds time) {
  if (status_) return status_;
  pollfd end{handle_.get(), POLLIN, 0};
  if (poll_uninterrupted(std::span(&end, 1), time) != 1) return std::nullopt;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  status_ = launch::to_exit_status(status);
  return status_;
}

}  // namespace lockstep::bench
