#include "lockstep/plan/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep {

std::string_view name_of(PipelineSchedule schedule) noexcept {
  switch (schedule) {
    case PipelineSchedule::OneForwardOneBackward:
      return "1f1b";
    case PipelineSchedule::GPipe:
      return "gpipe";
    case PipelineSchedule::Sequential:
      return "sequential";
  }
  return "?";
}

std::string_view name_of(Recompute recompute) noexcept {
  switch (recompute) {
    case Recompute::None:
      return "none";
    case Recompute::Stage:
      return "stage";
    case Recompute::Blocks:
      return "blocks";
  }
  return "?";
}

std::string_view name_of(Overlap overlap) noexcept {
  return overlap == Overlap::On ? "on" : "off";
}

namespace plan {
namespace {

/// More is worth a word, as long as G is below S.
constexpr std::int64_t kMostIdlePercent = 10;

std::int64_t round_up_division(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

}  // namespace

std::int64_t most_in_flight(const PipelineShape& shape, int stage) {
  if (shape.schedule == PipelineSchedule::Sequential || shape.stages <= 1) return 1;
  const auto all = std::max<std::int64_t>(1, shape.micro_batches);
  if (shape.schedule == PipelineSchedule::GPipe) return all;
  return std::clamp<std::int64_t>(shape.stages - stage, 1, all);
}

double idle_share(const PipelineShape& shape) {
  if (shape.stages <= 1) return 0;
  const double others = shape.stages - 1;
  if (shape.schedule == PipelineSchedule::Sequential) return others / shape.stages;
  const auto micro_batches = static_cast<double>(shape.micro_batches) * shape.replicas;
  return others / (micro_batches + others);
}

std::string too_few_micro_batches(const PipelineShape& shape, double idle_share) {
  const bool are_too_few = shape.stages > 1 && shape.micro_batches < shape.stages &&
                           shape.schedule != PipelineSchedule::Sequential;
  // With the replicas that share the devices, few of each may be many.
  if (!are_too_few || idle_share <= kMostIdlePercent / 100.0) return {};
  const auto for_work = round_up_division(shape.stages, shape.replicas);
  // (S - 1) / (M + S - 1) is the share.
  const auto for_share = round_up_division((100 - kMostIdlePercent) * (shape.stages - 1),
                                           kMostIdlePercent * shape.replicas);
  auto text = fmt::format(
      "gradient accumulation {} leaves the devices of {} stages idle for {:.0f} % of the time: "
      "--gradient-accumulation ",
      shape.micro_batches, shape.stages, 100 * idle_share);
  if (for_work > shape.micro_batches) text += fmt::format("{} gives each stage work, ", for_work);
  return text + fmt::format("{} brings it to {} %", for_share, kMostIdlePercent);
}

}  // namespace plan
}  // namespace lockstep
