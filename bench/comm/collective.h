#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace lockstep::bench {

/// The collectives that `lockstep bench comm` can measure.
enum class Collective : std::uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast };

inline constexpr std::array kCollectives{Collective::AllReduce, Collective::ReduceScatter,
                                         Collective::AllGather, Collective::Broadcast};

std::string_view name_of(Collective collective) noexcept;

/// One measurement: a collective over a number of bytes and instances. As in nccl-tests, the bytes
/// of `ReduceScatter` and `AllGather` are those of all blocks together.
struct Cell {
  Collective collective = Collective::AllReduce;
  std::int64_t bytes = 0;
  int instances = 0;
};

/// The number of f32 in the buffers of each instance. Collectives that work in place have no output
/// buffer.
struct ElementCounts {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

ElementCounts element_counts(const Cell& cell);

/// The bandwidth of each link in GB/s, if a perfect algorithm had taken this time. Numbers of
/// different collectives and instance counts can be compared with each other and with the speed of
/// the hardware.
double bus_bandwidth(const Cell& cell, std::chrono::duration<double> time);

}  // namespace lockstep::bench
