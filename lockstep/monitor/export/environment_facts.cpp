#include "lockstep/monitor/export/environment_facts.h"

#include <fmt/format.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"
#include "lockstep/base/version.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/launch/engine/engine.h"

namespace lockstep::monitor {

std::vector<ReportFact> build_facts() {
  return {{"version", fmt::format("{} (commit {})", lockstep::version(), commit())},
          {"compiler", std::string(build_description())},
          {"libtorch", torch_version().empty() ? "no: configure with LOCKSTEP_WITH_TORCH=ON"
                                               : std::string(torch_version())},
          {"CUDA", built_with_cuda() ? "yes" : "no: configure with the preset 'cuda'"},
          {"sanitizers", sanitizers().empty() ? "none" : std::string(sanitizers())}};
}

std::vector<ReportFact> machine_facts() {
  const auto machine = launch::discover_machine();
  std::size_t cpus = 0;
  for (const auto& core : machine.cores) cpus += core.cpus.size();
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  return {
      {"host", launch::this_host()},
      {"processor", machine.cpu_model.empty() ? "unknown" : machine.cpu_model},
      {"usable cores", fmt::format("{} with {} hardware threads; NUMA nodes: {}",
                                   machine.cores.size(), cpus, machine.numa_nodes())},
      {"CPU quota", machine.cpu_quota ? fmt::format("{:.3g} cores", *machine.cpu_quota) : "none"},
      {"memory", fmt::format("{:.1f} GiB", static_cast<double>(machine.memory_bytes) / kGib)}};
}

std::vector<ReportFact> library_facts(const topology::Environment& environment) {
  std::vector<ReportFact> facts;
  for (const auto* name : {"OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"}) {
    if (const auto value = environment.get(name)) facts.push_back({name, *value});
  }
  return facts;
}

std::string command_of_this_process() {
  std::string arguments;
  try {
    arguments = read_file("/proc/self/cmdline");
  } catch (const Error&) {
    return {};
  }
  if (!arguments.empty()) arguments.pop_back();  // the end of the last argument
  std::string text;
  for (const auto argument : split(arguments, '\0')) {
    text += (text.empty() ? "" : " ") + launch::quote_word(std::string(argument));
  }
  return text;
}

}  // namespace lockstep::monitor
