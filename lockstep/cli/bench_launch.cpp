#include "lockstep/cli/bench_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/bench_systems.h"
#include "lockstep/cli/run_to_end.h"
#include "lockstep/comm/world.h"
#include "lockstep/launch/start/find_program.h"

namespace lockstep::cli {
namespace {

using Arguments = std::vector<std::string>;

/// One that takes turns.
struct Contender {
  std::string work;
  std::string system;
  Arguments command;
  std::string output{};  ///< what it has to write each time
  std::vector<Seconds> samples{};
};

Arguments joined(Arguments launcher, const Arguments& program) {
  launcher.insert(launcher.end(), program.begin(), program.end());
  return launcher;
}

std::string repeated(const std::string& line, int times) {
  std::string lines;
  for (int i = 0; i < times; ++i) lines += line;
  return lines;
}

Seconds time_once(const Contender& contender, const topology::Environment& environment) {
  const auto finished = run_to_end(contender.command, environment);
  if (contender.output.empty() || finished.output == contender.output) return finished.time;
  throw Error(ErrorKind::Io,
              fmt::format("bench: '{}' wrote '{}', expected '{}'",
                          fmt::join(contender.command, " "), finished.output, contender.output));
}

/// A launcher that starts fewer processes is faster: count them first.
void verify_starts(const Arguments& launcher, int instances,
                   const topology::Environment& environment) {
  const auto command = joined(launcher, {"echo", "started"});
  const auto output = run_to_end(command, environment).output;
  const auto lines = std::count(output.begin(), output.end(), '\n');
  if (lines == instances) return;
  throw Error(ErrorKind::Io, fmt::format("bench: '{}' wrote {} lines, expected {}",
                                         fmt::join(command, " "), lines, instances));
}

void add_starts(const BenchLaunchOptions& options, const topology::Environment& environment,
                std::vector<Contender>& contenders) {
  const auto instances = std::to_string(options.instances);
  const auto add = [&](const std::string& system, const Arguments& launcher) {
    verify_starts(launcher, options.instances, environment);
    contenders.push_back(
        {fmt::format("start {} empty processes", instances), system, joined(launcher, {"true"})});
  };
  add("lockstep", {own_program(), "run", "--num-instances", instances});
  if (launch::has_program("mpirun", environment)) {
    add("mpirun", joined(mpirun_launcher(), {instances}));
  }
}

void add_meetings(const BenchLaunchOptions& options, std::vector<Contender>& contenders) {
  const auto instances = std::to_string(options.instances);
  const auto add = [&](const std::string& system, const Arguments& more) {
    contenders.push_back(
        {fmt::format("start {} processes that meet once", instances), system,
         joined({own_program(), "run", "--num-instances", instances, "--tag-output", "never"},
                more),
         repeated(fmt::format("met {}\n", instances), options.instances)});
  };
  add("lockstep", {own_program(), "bench", "meet"});
  // Unbound, as torchrun would start it.
  if (options.torch) {
    add("torch", {"--bind", "none", options.torch->python, options.torch->script});
  }
}

}  // namespace

PythonPeer find_launch_peer(const topology::Environment& environment) {
  return find_python_peer("bench launch: --against torch", "torch_meet.py", environment);
}

BenchReport bench_launch(const BenchLaunchOptions& options,
                         const topology::Environment& environment) {
  std::vector<Contender> contenders;
  add_starts(options, environment, contenders);
  add_meetings(options, contenders);
  contenders.push_back({"print the version", "lockstep", {own_program(), "version"}});

  constexpr int kWarmUp = 2;
  for (int round = -kWarmUp; round < options.rounds; ++round) {
    for (auto& contender : contenders) {
      const auto time = time_once(contender, environment);
      if (round >= 0) contender.samples.push_back(time);
    }
  }

  BenchReport report{"launch", {}};
  Seconds ours{0};
  for (const auto& contender : contenders) {
    report.rows.push_back({contender.work, contender.system, summarize(contender.samples)});
    auto& row = report.rows.back();
    // We are the first of each work.
    if (row.system == "lockstep") {
      ours = row.timing.median;
    } else {
      row.ratio = ours / row.timing.median;
    }
  }
  return report;
}

void bench_meet() {
  const auto world = World::init();
  std::vector<float> ones{1.0F};
  world.all_reduce(comm::buffer_of(ones));
  fmt::print("met {}\n", ones.front());
}

}  // namespace lockstep::cli
