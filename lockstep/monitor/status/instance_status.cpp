#include "lockstep/monitor/status/instance_status.h"

#include <algorithm>

namespace lockstep::monitor {

std::string_view name_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::Starting:
      return "starting";
    case Phase::Preparing:
      return "preparing";
    case Phase::Training:
      return "training";
    case Phase::Evaluating:
      return "evaluating";
    case Phase::Saving:
      return "saving";
    case Phase::Finishing:
      return "finishing";
  }
  return "unknown";
}

std::string_view name_of(DeviceKind kind) noexcept {
  return kind == DeviceKind::Cuda ? "cuda" : "cpu";
}

std::string short_command(const InstanceFacts& facts) {
  const auto program_end = std::min(facts.command.find(' '), facts.command.size());
  const auto slash = facts.command.rfind('/', program_end);
  return slash == std::string::npos ? facts.command : facts.command.substr(slash + 1);
}

}  // namespace lockstep::monitor
