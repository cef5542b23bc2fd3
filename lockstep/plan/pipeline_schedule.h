#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep {

/// In which order the stages of a replica compute micro-batches. Each stage takes them forward in
/// order, and backward in order, under every one of them: bits do not depend on it.
enum class PipelineSchedule : std::uint8_t {
  OneForwardOneBackward,  ///< "1f1b": backward as soon as it can be, so little has to be kept
  GPipe,                  ///< "gpipe": all forward, then all backward
  Sequential,  ///< "sequential": one stage at a time, for models that are large, not fast
};
LOCKSTEP_API std::string_view name_of(PipelineSchedule schedule) noexcept;

/// What is computed a second time, in order not to keep it from forward to backward.
enum class Recompute : std::uint8_t {
  None,
  Stage,   ///< "stage": a stage keeps its input of each micro-batch that is under way
  Blocks,  ///< "blocks": each block keeps its input: less memory at the most, also in one stage
};
LOCKSTEP_API std::string_view name_of(Recompute recompute) noexcept;

/// Whether gradients go to other hosts while others are still computed. Results do not depend on
/// it.
enum class Overlap : std::uint8_t {
  On,   ///< "on"
  Off,  ///< "off"
};
LOCKSTEP_API std::string_view name_of(Overlap overlap) noexcept;

namespace plan {

/// What a pipeline's behaviour depends on.
struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int stages = 1;                  ///< S
  std::int64_t micro_batches = 1;  ///< G
  /// Replicas whose stages are on the same devices. Their micro-batches follow each other without
  /// a gap.
  int replicas = 1;
};

/// How many micro-batches a stage may have taken forward and not yet backward.
LOCKSTEP_API std::int64_t most_in_flight(const PipelineShape& shape, int stage);

/// The part of the devices' time in which they wait for each other, where all stages take equally
/// long.
LOCKSTEP_API double idle_share(const PipelineShape& shape);

/// What a user should know before it runs: too few micro-batches to keep all stages busy, with the
/// share of idle time, the G with which each stage has work and the one for 10 % where stages take
/// equally long; else nothing.
LOCKSTEP_API std::string too_few_micro_batches(const PipelineShape& shape, double idle_share);
inline std::string too_few_micro_batches(const PipelineShape& shape) {
  return too_few_micro_batches(shape, idle_share(shape));
}

}  // namespace plan
}  // namespace lockstep
