#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/cli/bench_report.h"

namespace lockstep::cli {

/// The collectives that `lockstep bench comm` can measure.
enum class Collective : std::uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast };

inline constexpr std::array kCollectives{Collective::AllReduce, Collective::ReduceScatter,
                                         Collective::AllGather, Collective::Broadcast};

std::string_view name_of(Collective collective) noexcept;

/// One thing to be measured. The size is that of the whole: of a block on each instance times the
/// instances for `ReduceScatter` and `AllGather`, as nccl-tests count.
struct BenchCell {
  Collective collective = Collective::AllReduce;
  std::int64_t bytes = 0;
  int instances = 0;
};

/// "all_reduce 4 KiB, 8 instances".
std::string describe(const BenchCell& cell);

/// How many f32 each instance brings, and gets into a buffer of its own: none for what works in
/// place.
struct ElementCounts {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

ElementCounts element_counts(const BenchCell& cell);

/// What a perfect implementation would have moved over each link in that time, in GB/s; so numbers
/// of different collectives and instance counts can be compared with the speed of the hardware.
double bus_bandwidth(const BenchCell& cell, Seconds time);

}  // namespace lockstep::cli
