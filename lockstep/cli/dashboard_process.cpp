#include "lockstep/cli/dashboard_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/hand_on.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::cli {
namespace {

/// Up to the end of the first line, or of all.
std::string read_line(const UniqueFd& from) {
  std::string line;
  char letter = 0;
  ssize_t count = 0;
  while ((count = ::read(from.get(), &letter, 1)) == 1 || (count < 0 && errno == EINTR)) {
    if (count < 0) continue;
    if (letter == '\n') return line;
    line += letter;
  }
  return line;
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
                                   const topology::Environment& environment, const sigset_t& mask) {
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
       .signal_mask = mask,
       .descriptors = descriptors});
  pid_ = spawned.pid();
  spawned.execute(program);
  output.write_end.reset();
  const auto line = read_line(output.read_end);
  const std::string_view greeting = kDashboardGreeting;
  if (line.starts_with(greeting)) {
    url_ = line.substr(greeting.size());
    return;
  }
  const int code = wait_for(pid_);
  throw Error(kind_of(code),
              fmt::format("run: --dashboard: expected it to serve at port {}, found that it ended "
                          "with {}, as told above",
                          port, code),
              "--dashboard 0, which takes a port that is free; or leave it out");
}

/// Where the warden has reaped it, its number may be another's by now.
DashboardProcess::~DashboardProcess() {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != 0) return;
  ::kill(pid_, SIGKILL);
  wait_for(pid_);
}

std::unique_ptr<DashboardProcess> start_dashboard(const RunArguments& arguments,
                                                  const std::string& job,
                                                  const topology::Environment& environment,
                                                  const launch::Signals& signals) {
  if (!arguments.dashboard_port) return nullptr;
  auto dashboard = std::make_unique<DashboardProcess>(*arguments.dashboard_port, job, environment,
                                                      signals.original_mask());
  if (arguments.console.verbosity != ui::Verbosity::Quiet) {
    fmt::print(stderr, "lockstep: {}{}\n", kDashboardGreeting, dashboard->url());
  }
  return dashboard;
}

}  // namespace lockstep::cli
