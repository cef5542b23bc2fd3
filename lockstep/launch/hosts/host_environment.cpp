#include "lockstep/launch/hosts/host_environment.h"

#include <algorithm>
#include <array>

namespace lockstep::launch {
namespace {

constexpr std::array<std::string_view, 5> kMpiPrefixes{"OMPI_", "PMIX_", "PMI_", "PRTE", "ORTE_"};
constexpr std::array<std::string_view, 5> kHostPrefixes{"SSH_", "SLURM", "LOCKSTEP_AGENT_",
                                                        "XDG_SESSION_", "HYDRA_"};
constexpr std::array<std::string_view, 12> kHostNames{
    "HOSTNAME",   "HOST",       "XDG_RUNTIME_DIR",          "TMPDIR",  "TMP",
    "TEMP",       "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY",
    "KRB5CCNAME", "_"};

bool has_prefix(std::string_view name, auto prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool belongs_to_mpi(std::string_view name) {
  return has_prefix(name, kMpiPrefixes);
}

bool belongs_to_host(std::string_view name) {
  return belongs_to_mpi(name) || has_prefix(name, kHostPrefixes) ||
         std::ranges::find(kHostNames, name) != kHostNames.end();
}

topology::Environment host_environment(const topology::Environment& launcher,
                                       const topology::Environment& agent) {
  topology::Environment merged;
  for (const auto& [name, value] : launcher.variables()) {
    if (!belongs_to_host(name)) merged.set(name, value);
  }
  for (const auto& [name, value] : agent.variables()) {
    // The agent's own are between it and the launcher.
    if (belongs_to_host(name) && !name.starts_with("LOCKSTEP_AGENT_")) merged.set(name, value);
  }
  return merged;
}

}  // namespace lockstep::launch
