#include "lockstep/launch/engine/mpirun_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::launch {
namespace {

/// Where mpirun reaches hosts over ssh, it must not ask anybody for anything either, unless the
/// user has said how it is to do so.
std::vector<std::string> ssh_arguments(const EngineOptions& options) {
  const auto tells = [](const std::string& word) {
    return word.find("plm_rsh_args") != std::string::npos;
  };
  if (options.mpi_ssh_is_set || std::ranges::any_of(options.mpi_global_args, tells)) return {};
  return {"--mca", "plm_rsh_args", "-o BatchMode=yes -o ConnectTimeout=10"};
}

}  // namespace

std::vector<EngineCommand> MpirunEngine::commands(const std::vector<int>& hosts) const {
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(options_.hosts[static_cast<std::size_t>(host)]);
  std::vector<std::string> arguments{"mpirun",
                                     "--host",
                                     fmt::format("{}", fmt::join(names, ",")),
                                     "-np",
                                     std::to_string(names.size()),
                                     "--map-by",
                                     "ppr:1:node",
                                     "--bind-to",
                                     "none"};
  const auto add = [&](const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  // mpirun refuses to run as root unless it is told to.
  if (options_.is_root) add({"--allow-run-as-root"});
  add(ssh_arguments(options_));
  add({"-x", kAgentLauncher, "-x", kAgentSecret});
  add(options_.mpi_global_args);
  add(options_.mpi_local_args);
  add({options_.lockstep, "agent"});
  return {{.arguments = std::move(arguments), .hosts = hosts, .carries_channel = false}};
}

}  // namespace lockstep::launch
