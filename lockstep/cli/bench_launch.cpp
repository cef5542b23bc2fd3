#include "lockstep/cli/bench_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/bench_systems.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Command {
  std::string work;
  std::string system;
  std::vector<std::string> arguments;
  std::vector<Seconds> samples{};
};

struct Finished {
  Seconds time{0};
  std::string output;
};

/// Runs a command to its end and returns what it wrote. Throws `Io` where it fails.
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
  const auto begin = Clock::now();
  pid_t pid = 0;
  errno =
      ::posix_spawnp(&pid, arguments.front().c_str(), &actions, nullptr,
                     launch::pointers_to(arguments).data(), launch::pointers_to(strings).data());
  if (errno != 0) throw io_error("bench: start " + arguments.front());
  pipe.write_end.reset();
  Finished finished;
  std::array<char, 4096> block;
  ssize_t count = 0;
  while ((count = ::read(pipe.read_end.get(), block.data(), block.size())) > 0) {
    finished.output.append(block.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  finished.time = Clock::now() - begin;
  if (status != 0) {
    throw Error(ErrorKind::Io, fmt::format("bench: '{}' failed", fmt::join(arguments, " ")),
                "run it by hand to see why");
  }
  return finished;
}

/// A launcher that starts fewer processes is faster: count them first.
void verify_starts(std::vector<std::string> launcher, int instances,
                   const topology::Environment& environment) {
  launcher.insert(launcher.end(), {"echo", "started"});
  const auto output = run_to_end(launcher, environment).output;
  const auto lines = std::count(output.begin(), output.end(), '\n');
  if (lines == instances) return;
  throw Error(ErrorKind::Io, fmt::format("bench: '{}' wrote {} lines, expected {}",
                                         fmt::join(launcher, " "), lines, instances));
}

}  // namespace

BenchReport bench_launch(const BenchLaunchOptions& options,
                         const topology::Environment& environment) {
  const auto self = own_program();
  const auto work = fmt::format("start {} empty processes", options.instances);
  const auto with_true = [](std::vector<std::string> launcher) {
    launcher.emplace_back("true");
    return launcher;
  };

  const std::vector<std::string> own{self, "run", "--num-instances",
                                     std::to_string(options.instances)};
  verify_starts(own, options.instances, environment);
  std::vector<Command> commands{{work, "lockstep", with_true(own)}};
  if (launch::has_program("mpirun", environment)) {
    auto peer = mpirun_launcher();
    peer.push_back(std::to_string(options.instances));
    verify_starts(peer, options.instances, environment);
    commands.push_back({work, "mpirun", with_true(peer)});
  }
  commands.push_back({"print the version", "lockstep", {self, "version"}});

  constexpr int kWarmUp = 2;
  for (int round = -kWarmUp; round < options.rounds; ++round) {
    for (auto& command : commands) {
      const auto time = run_to_end(command.arguments, environment).time;
      if (round >= 0) command.samples.push_back(time);
    }
  }

  BenchReport report{"launch", {}};
  for (const auto& command : commands) {
    report.rows.push_back({command.work, command.system, summarize(command.samples)});
    auto& row = report.rows.back();
    if (row.system != "lockstep") row.ratio = report.rows.front().timing.median / row.timing.median;
  }
  return report;
}

}  // namespace lockstep::cli
