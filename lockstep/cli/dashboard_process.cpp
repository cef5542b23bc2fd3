#include "lockstep/cli/dashboard_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/installed_programs.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The dashboard needs milliseconds to start, except on a very busy machine.
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kForLastState{1500};

/// What became of waiting for a line.
struct Awaited {
  std::string line{};             ///< or what there was of it when the pipe was closed
  bool is_late = false;           ///< nothing came in time
  std::optional<int> end_signal;  ///< that came before it
};

/// Up to the end of the first line, or of all. Signals that end no job come too early to mean
/// anything, and are dropped.
Awaited read_line(const UniqueFd& from, launch::Signals& signals) {
  Awaited awaited;
  const auto deadline = Clock::now() + kPatience;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    awaited.is_late = left <= 0;
    if (awaited.is_late) return awaited;
    pollfd fds[] = {{.fd = from.get(), .events = POLLIN, .revents = 0},
                    {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(fds, 2, static_cast<int>(left)) <= 0) continue;
    while (const auto signal = signals.take()) {
      if (!launch::ends_job(*signal)) continue;
      awaited.end_signal = signal;
      return awaited;
    }
    if (fds[0].revents == 0) continue;
    char letter = 0;
    const auto count = ::read(from.get(), &letter, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || letter == '\n') return awaited;
    awaited.line += letter;
  }
}

/// As if the signal had never been blocked.
[[noreturn]] void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::raise(signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::_exit(128 + signal);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The kind whose exit code it is.
ErrorKind kind_of(int code) {
  for (const auto kind : {ErrorKind::Options, ErrorKind::Unavailable, ErrorKind::Io}) {
    if (exit_code(kind) == code) return kind;
  }
  return ErrorKind::Unavailable;
}

}  // namespace

DashboardProcess::DashboardProcess(int port, const std::string& job,
                                   const topology::Environment& environment,
                                   launch::Signals& signals) {
  const auto program = program_beside(kDashboardProgram);
  auto output = make_pipe();
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  auto spawned = launch::spawn(
      {.program = program,
       .arguments = {program, "dashboard", "--port", std::to_string(port), "--job", job},
       .environment = environment.to_strings(),
       .stdin_fd = nothing.get(),
       .stdout_fd = output.write_end.get(),
       .stderr_fd = STDERR_FILENO,
       .cpus = {},
       .signal_mask = signals.original_mask(),
       .descriptors = descriptors});
  pid_ = spawned.pid();
  handle_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  spawned.execute(program);
  output.write_end.reset();
  const auto awaited = read_line(output.read_end, signals);
  const std::string_view greeting = kDashboardGreeting;
  if (awaited.end_signal) {
    end();
    end_by(*awaited.end_signal);
  }
  if (awaited.is_late) {
    end();
    throw Error(ErrorKind::Timeout,
                fmt::format("run: --dashboard: expected {} to say within {} s at which address it "
                            "serves, found that it has not",
                            kDashboardProgram, kPatience.count()),
                "leave --dashboard out, and start 'lockstep dashboard' when the machine is well");
  }
  if (awaited.line.starts_with(greeting)) {
    url_ = awaited.line.substr(greeting.size());
    return;
  }
  const int code = wait_for(pid_);
  throw Error(kind_of(code),
              fmt::format("run: --dashboard: expected it to serve at port {}, found that it ended "
                          "with {}, as told above",
                          port, code),
              "--dashboard 0, which takes a port that is free; or leave it out");
}

DashboardProcess::~DashboardProcess() {
  end();
}

void DashboardProcess::finish() const noexcept {
  if (!handle_ || ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGTERM, nullptr, 0) != 0) return;
  pollfd ended{.fd = handle_.get(), .events = POLLIN, .revents = 0};
  ::poll(&ended, 1, static_cast<int>(kForLastState.count()));
}

/// If the warden has reaped the dashboard, another process may have its number.
void DashboardProcess::end() noexcept {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != 0) return;
  ::kill(pid_, SIGKILL);
  wait_for(pid_);
}

std::unique_ptr<DashboardProcess> start_dashboard(const RunArguments& arguments,
                                                  const std::string& job,
                                                  const topology::Environment& environment,
                                                  launch::Signals& signals) {
  if (!arguments.dashboard_port) return nullptr;
  auto dashboard =
      std::make_unique<DashboardProcess>(*arguments.dashboard_port, job, environment, signals);
  if (arguments.console.verbosity != ui::Verbosity::Quiet) {
    fmt::print(stderr, "lockstep: {}{}\n", kDashboardGreeting, dashboard->url());
  }
  return dashboard;
}

}  // namespace lockstep::cli
