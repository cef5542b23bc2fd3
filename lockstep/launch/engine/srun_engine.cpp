#include "lockstep/launch/engine/srun_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/topology/identity.h"

namespace lockstep::launch {
namespace {

/// "2(x3),1": two on each of three nodes, then one.
std::vector<int> expand_counts(const std::string& list) {
  std::vector<int> counts;
  for (const auto part : split(list, ',')) {
    const auto open = part.find("(x");
    const auto count = parse_integer(part.substr(0, open));
    std::optional<std::int64_t> nodes = 1;
    if (open != std::string_view::npos) {
      nodes = part.ends_with(')') ? parse_integer(part.substr(open + 2, part.size() - open - 3))
                                  : std::nullopt;
    }
    constexpr int kMost = 1'000'000;
    if (!count || !nodes || *count < 1 || *nodes < 1 || *count > kMost || *nodes > kMost) {
      throw Error(ErrorKind::Options,
                  fmt::format("environment: SLURM_TASKS_PER_NODE is '{}', expected a list such as "
                              "'2(x3),1'",
                              list),
                  "give the hosts with --host");
    }
    counts.insert(counts.end(), static_cast<std::size_t>(*nodes), static_cast<int>(*count));
  }
  return counts;
}

}  // namespace

std::vector<EngineCommand> SrunEngine::commands(const std::vector<int>& hosts) const {
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(options_.hosts[static_cast<std::size_t>(host)]);
  std::vector<std::string> arguments{
      "srun", fmt::format("--nodes={}", names.size()), fmt::format("--ntasks={}", names.size()),
      "--ntasks-per-node=1", fmt::format("--nodelist={}", fmt::join(names, ",")), "--export=ALL",
      "--kill-on-bad-exit=0", "--mpi=none",
      // Beside whatever else runs in the allocation, and on all of
      // its cores: binding is ours.
      "--overlap", "--cpu-bind=none", "--input=none", options_.lockstep, "agent"};
  return {{.arguments = std::move(arguments), .hosts = hosts, .carries_channel = false}};
}

bool is_in_allocation(const topology::Environment& environment) {
  if (!environment.has("SLURM_JOB_ID") || !environment.has("SLURM_JOB_NODELIST")) return false;
  return topology::read_identity(environment).launched_by == topology::LaunchedBy::Nobody;
}

std::vector<topology::Host> hosts_of_allocation(const topology::Environment& environment) {
  auto hosts = topology::parse_host_list(environment.get("SLURM_JOB_NODELIST").value_or(""));
  // Without a number of tasks Slurm assumes one per node, which nobody has meant.
  const auto tasks = environment.get("SLURM_TASKS_PER_NODE");
  if (!environment.has("SLURM_NTASKS") || !tasks) return hosts;
  const auto counts = expand_counts(*tasks);
  for (std::size_t i = 0; i < hosts.size() && i < counts.size(); ++i) hosts[i].slots = counts[i];
  return hosts;
}

}  // namespace lockstep::launch
