#include "lockstep/cli/bench_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cli/bench_systems.h"
#include "lockstep/cli/run_to_end.h"
#include "lockstep/launch/start/find_program.h"

namespace lockstep::cli {
namespace {

struct Command {
  std::string work;
  std::string system;
  std::vector<std::string> arguments;
  std::vector<Seconds> samples{};
};

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
