#include "bench/driver/run_to_end.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::bench {

Finished run_to_end(const std::vector<std::string>& arguments,
                    const topology::Environment& environment) {
  auto pipe = make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> guard(
      &actions, ::posix_spawn_file_actions_destroy);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe.write_end.get(), STDOUT_FILENO);

  const auto strings = environment.to_strings();
  const auto begin = std::chrono::steady_clock::now();
  pid_t pid = 0;
  errno =
      ::posix_spawnp(&pid, arguments.front().c_str(), &actions, nullptr,
                     launch::pointers_to(arguments).data(), launch::pointers_to(strings).data());
  if (errno != 0) throw io_error("bench: start " + arguments.front());
  pipe.write_end.reset();
  Finished finished;
  std::array<char, 4096> block;
  ssize_t count = 0;
  while ((count = ::read(pipe.read_end.get(), block.data(), block.size())) > 0 ||
         (count < 0 && errno == EINTR)) {
    finished.output.append(block.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  int status = -1;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  finished.time = std::chrono::steady_clock::now() - begin;
  if (status != 0) {
    throw Error(ErrorKind::Io, fmt::format("bench: '{}' failed", fmt::join(arguments, " ")),
                "run it by hand to see why");
  }
  return finished;
}

}  // namespace lockstep::bench
