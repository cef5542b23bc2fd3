#include "lockstep/launch/engine/ssh_engine.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::launch {
namespace {

constexpr int kAliveInterval = 5;

/// ssh must not give up a host before the launcher does.
int alive_count(std::chrono::duration<double> stall_timeout) {
  constexpr double kForEver = 1e8;
  const double seconds = stall_timeout.count() > 0 ? stall_timeout.count() : kForEver;
  return static_cast<int>(std::ceil(seconds / kAliveInterval)) + 1;
}

}  // namespace

std::vector<EngineCommand> SshEngine::commands(const std::vector<int>& hosts) const {
  std::vector<EngineCommand> commands;
  for (const int host : hosts) {
    const auto index = static_cast<std::size_t>(host);
    if (options_.is_this_host[index]) {
      commands.push_back(
          {.arguments = {options_.lockstep, "agent"}, .hosts = {host}, .is_agent = true});
      continue;
    }
    // What is known of hosts' keys is the user's own business.
    commands.push_back({{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                         fmt::format("ServerAliveInterval={}", kAliveInterval), "-o",
                         fmt::format("ServerAliveCountMax={}", alive_count(options_.stall_timeout)),
                         options_.hosts[index], "exec " + quote_word(options_.lockstep) + " agent"},
                        {host}});
  }
  return commands;
}

}  // namespace lockstep::launch
