#include "lockstep/monitor/status/instance_status.h"

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

}  // namespace lockstep::monitor
