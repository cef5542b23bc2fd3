#include "lockstep/comm/host/stack_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>

#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep::comm::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLimit = std::chrono::seconds(2);
constexpr int kFrames = 12;
constexpr std::size_t kLongest = 120;

pid_t start_eu_stack(int process, int output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> guard(
      &actions, ::posix_spawn_file_actions_destroy);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);

  std::string name = "eu-stack";
  std::string option = "-p";
  std::string number = std::to_string(process);
  std::array<char*, 4> arguments{name.data(), option.data(), number.data(), nullptr};
  // No environment: with DEBUGINFOD_URLS it would ask servers for symbols.
  std::array<char*, 1> environment{nullptr};
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, name.c_str(), &actions, nullptr, arguments.data(), environment.data());
  return error == 0 ? pid : -1;
}

/// What comes until the other end is closed or the time is over.
std::string read_until(int fd, Clock::time_point deadline) {
  std::string text;
  std::array<char, 4096> block;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) return text;
    const auto count = ::read(fd, block.data(), block.size());
    if (count <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string frames_of(int thread, const std::string& listing, int limit) {
  const auto heading = fmt::format("TID {}:", thread);
  std::string frames;
  bool is_ours = false;
  int count = 0;
  for (const auto line : split(listing, '\n')) {
    if (line.starts_with("TID ")) is_ours = line.starts_with(heading);
    // "#1  0x00007f0c1b2f3a4d    __poll"; what has no name is no help.
    if (!is_ours || !line.starts_with('#') || count == limit) continue;
    const auto address = line.find("0x");
    const auto name = line.find_first_of(" \t", address);
    if (address == std::string_view::npos || name == std::string_view::npos) continue;
    auto function = trim(line.substr(name));
    // "- 1 " stands before frames that are not calls.
    if (function.starts_with("- 1")) function = trim(function.substr(3));
    if (function.empty()) continue;
    frames += fmt::format("{}    {}{}", frames.empty() ? "" : "\n", function.substr(0, kLongest),
                          function.size() > kLongest ? "…" : "");
    ++count;
  }
  return frames;
}

std::string stack_trace(ThreadId thread) {
  auto pipe = make_pipe();
  const auto pid = start_eu_stack(thread.process, pipe.write_end.get());
  pipe.write_end.reset();
  if (pid < 0) return {};
  const auto listing = read_until(pipe.read_end.get(), Clock::now() + kLimit);
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return frames_of(thread.thread, listing, kFrames);
}

}  // namespace lockstep::comm::host
