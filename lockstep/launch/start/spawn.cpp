#include "lockstep/launch/start/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

void bind_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  const int most = *std::max_element(cpus.begin(), cpus.end());
  const auto count = static_cast<std::size_t>(most) + 1;
  cpu_set_t* set = CPU_ALLOC(count);
  const auto size = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(size, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), size, set);
  // A core that has just been taken away is no reason not to run.
  ::sched_setaffinity(0, size, set);
  CPU_FREE(set);
}

/// Whether a file that the kernel does not know is a script rather than a damaged binary.
bool is_text(const std::string& path) {
  const int before = errno;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> head{};
  const auto count = file ? ::read(file.get(), head.data(), head.size()) : -1;
  errno = before;
  const std::string_view text(head.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return count >= 0 &&
         !text.starts_with(
             "\x7f"
             "ELF") &&
         text.find('\0') == std::string_view::npos;
}

/// Runs in the child. Returns only where the kernel refused the program.
void become(const SpawnRequest& request, pid_t parent, const UniqueFd& hold) {
  ::setpgid(0, 0);
  // The warden ends whatever outlives the supervisor; this is faster, and covers both being killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
  char unused = 0;
  while (::read(hold.get(), &unused, 1) < 0 && errno == EINTR) {
  }
  ::dup2(request.stdin_fd, STDIN_FILENO);
  ::dup2(request.stdout_fd, STDOUT_FILENO);
  ::dup2(request.stderr_fd, STDERR_FILENO);
  for (const int fd : request.inherited) ::fcntl(fd, F_SETFD, 0);
  bind_to(request.cpus);
  ::setrlimit(RLIMIT_NOFILE, &request.descriptors);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGTTOU, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &request.signal_mask, nullptr);

  const auto environment = pointers_to(request.environment);
  ::execve(request.program.c_str(), pointers_to(request.arguments).data(), environment.data());
  if (errno != ENOEXEC || !is_text(request.program)) return;
  // A script without a first line of its own is the shell's, as every shell has it.
  auto arguments = request.arguments;
  arguments[0] = request.program;
  arguments.insert(arguments.begin(), "sh");
  ::execve("/bin/sh", pointers_to(arguments).data(), environment.data());
}

}  // namespace

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const auto& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Spawned spawn(const SpawnRequest& request) {
  auto hold = make_pipe();
  auto failure = make_pipe();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw io_error("run: fork");
  if (pid == 0) {
    hold.write_end.reset();
    become(request, parent, hold.read_end);
    const int code = errno;
    [[maybe_unused]] const auto written = ::write(failure.write_end.get(), &code, sizeof code);
    ::_exit(126);
  }
  ::setpgid(pid, pid);  // here too, so that it holds when we return
  return {pid, std::move(hold.write_end), std::move(failure.read_end)};
}

void Spawned::execute(const std::string& program) {
  hold_.reset();
  int code = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure_.get(), &code, sizeof code);
  } while (count < 0 && errno == EINTR);
  failure_.reset();
  if (count == 0) return;
  throw Error(ErrorKind::NotExecutable,
              fmt::format("run: '{}' cannot be executed: {}", program, std::strerror(code)));
}

}  // namespace lockstep::launch
