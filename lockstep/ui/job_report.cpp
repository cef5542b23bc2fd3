#include "lockstep/ui/job_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "lockstep/base/strings.h"

namespace lockstep::ui {
namespace {

constexpr std::size_t kMostCauses = 8;

/// "1 restart", "2 restarts"
std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string describe_causes(const std::vector<events::JobSummary::Restart>& restarts) {
  std::vector<std::string> causes;
  for (const auto& restart : restarts) {
    if (causes.size() == kMostCauses) {
      causes.push_back(fmt::format("and {} more", restarts.size() - kMostCauses));
      break;
    }
    const auto step = restart.step ? fmt::format(" at step {}", *restart.step) : "";
    causes.push_back(fmt::format("{} {}{}", restart.who, restart.cause, step));
  }
  return fmt::format("{}", fmt::join(causes, ", "));
}

std::string describe_stalls(const events::JobSummary& summary) {
  const std::vector<int> instances(summary.stalled.begin(), summary.stalled.end());
  return fmt::format("{} (instance{} {})",
                     counted(static_cast<std::size_t>(summary.stalls), "stall"),
                     instances.size() == 1 ? "" : "s", to_ranges(instances));
}

std::string describe_checkpoints(const events::JobSummary& summary) {
  auto text = counted(static_cast<std::size_t>(summary.checkpoints), "checkpoint");
  if (summary.last_checkpoint) {
    text += fmt::format(" ({}at step {})", summary.checkpoints == 1 ? "" : "the last ",
                        *summary.last_checkpoint);
  }
  if (summary.failed_checkpoints > 0) {
    text += fmt::format(", {} that could not be written", summary.failed_checkpoints);
  }
  return text;
}

}  // namespace

std::string describe(const events::JobSummary& summary) {
  if (!summary.is_eventful()) return {};
  std::string text;
  if (!summary.restarts.empty()) {
    text += fmt::format("lockstep: {}: {}\n", counted(summary.restarts.size(), "restart"),
                        describe_causes(summary.restarts));
  }
  std::vector<std::string> parts;
  if (summary.faults > 0) {
    parts.push_back(counted(static_cast<std::size_t>(summary.faults), "fault") + " injected");
  }
  if (summary.stalls > 0) parts.push_back(describe_stalls(summary));
  if (summary.checkpoints + summary.failed_checkpoints > 0) {
    parts.push_back(describe_checkpoints(summary));
  }
  if (parts.empty()) return text;
  parts.push_back(fmt::format("{:.1f} s", summary.run_time.count()));
  return text + fmt::format("lockstep: {}\n", fmt::join(parts, ", "));
}

}  // namespace lockstep::ui
