#include "bench/launch/measure_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "bench/driver/programs.h"
#include "bench/driver/run_to_end.h"
#include "lockstep/base/error.h"
#include "lockstep/cli/installed_programs.h"
#include "lockstep/launch/start/find_program.h"

namespace lockstep::bench {
namespace {

using Arguments = std::vector<std::string>;

/// A command whose time is measured in each round.
struct MeasuredCommand {
  std::string work;
  std::string system;
  Arguments command;
  std::string output{};  ///< the expected output; empty: not checked
  std::vector<Seconds> samples{};
};

std::string repeated(const std::string& line, int times) {
  std::string lines;
  for (int i = 0; i < times; ++i) lines += line;
  return lines;
}

Seconds time_once(const MeasuredCommand& measured, const topology::Environment& environment) {
  const auto finished = run_to_end(measured.command, environment);
  if (measured.output.empty() || finished.output == measured.output) return finished.time;
  throw Error(ErrorKind::Io,
              fmt::format("bench: '{}' wrote '{}', expected '{}'", fmt::join(measured.command, " "),
                          finished.output, measured.output));
}

/// Counts the processes that a launcher starts, because a launcher that starts fewer is faster.
void verify_starts(const Arguments& launcher, int instances,
                   const topology::Environment& environment) {
  const auto command = joined(launcher, {"echo", "started"});
  const auto output = run_to_end(command, environment).output;
  const auto lines = std::count(output.begin(), output.end(), '\n');
  if (lines == instances) return;
  throw Error(ErrorKind::Io, fmt::format("bench: '{}' wrote {} lines, expected {}",
                                         fmt::join(command, " "), lines, instances));
}

void add_starts(const LaunchOptions& options, const topology::Environment& environment,
                std::vector<MeasuredCommand>& commands) {
  const auto instances = std::to_string(options.instances);
  const auto add = [&](const std::string& system, const Arguments& launcher) {
    verify_starts(launcher, options.instances, environment);
    commands.push_back(
        {fmt::format("start {} empty processes", instances), system, joined(launcher, {"true"})});
  };
  add("lockstep", {lockstep_program(), "run", "--num-instances", instances});
  if (launch::has_program("mpirun", environment)) {
    add("mpirun", joined(mpirun_launcher(), {instances}));
  }
}

void add_meetings(const LaunchOptions& options, std::vector<MeasuredCommand>& commands) {
  const auto instances = std::to_string(options.instances);
  const auto add = [&](const std::string& system, const Arguments& more) {
    commands.push_back(
        {fmt::format("start {} processes that meet once", instances), system,
         joined({lockstep_program(), "run", "--num-instances", instances, "--tag-output", "never"},
                more),
         repeated(fmt::format("met {}\n", instances), options.instances)});
  };
  add("lockstep", {cli::own_program(), "meet"});
  // Not bound to cores, as under torchrun.
  if (options.torch) {
    add("torch", {"--bind", "none", options.torch->python, options.torch->script});
  }
}

}  // namespace

PythonPeer find_launch_peer(const topology::Environment& environment) {
  return find_python_peer("bench launch: --against torch", "torch_meet.py", environment);
}

Report measure_launch(const LaunchOptions& options, const topology::Environment& environment) {
  std::vector<MeasuredCommand> commands;
  add_starts(options, environment, commands);
  add_meetings(options, commands);
  commands.push_back({"print the version", "lockstep", {lockstep_program(), "version"}});

  constexpr int kWarmUp = 2;
  for (int round = -kWarmUp; round < options.rounds; ++round) {
    for (auto& measured : commands) {
      const auto time = time_once(measured, environment);
      if (round >= 0) measured.samples.push_back(time);
    }
  }

  Report report{"launch", {}};
  Seconds ours{0};
  for (const auto& measured : commands) {
    report.rows.push_back({measured.work, measured.system, summarize(measured.samples)});
    auto& row = report.rows.back();
    // The row of lockstep is the first of each work.
    if (row.system == "lockstep") {
      ours = row.timing.median;
    } else {
      row.ratio = ours / row.timing.median;
    }
  }
  return report;
}

}  // namespace lockstep::bench
