#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lockstep/events/status_sink.h"

namespace lockstep::monitor {

/// Where the time of one instance's steps went.
struct InstanceTimes {
  int instance = 0;
  events::PhaseSeconds seconds{};
};

/// What hints are made of, as far as it is known.
struct BottleneckFacts {
  int hosts = 1;
  std::optional<int> workers{};  ///< of an instance's loader; 0: whoever computes loads
  std::optional<std::int64_t> gradient_accumulation{};
};

/// What a training spends more time on than it should.
struct Bottleneck {
  enum class Kind : std::uint8_t {
    Input,    ///< replicas wait for batches
    Compute,  ///< nothing but forward and backward counts
    Reduce,   ///< gradients and updates, on one host
    Network,  ///< gradients between hosts
    Uneven,   ///< the others wait for one instance
    Idle,     ///< devices or instances wait for each other, in turn
  };
  Kind kind = Kind::Compute;
  double share = 0;            ///< of the time, from 0 to 1
  std::optional<int> slowest;  ///< the instance that the others wait for
  /// "input-bound: replicas waited 31 % of the time for data; try --num-workers 4"
  std::string text;
};

/// Names the bottleneck of a job by what its instances have measured. Nothing where nobody has
/// measured anything yet.
///
/// What an instance waits for others is no trouble of its own: where one is busy for a larger share
/// of its time than the others, that one is named, and why. Else what counts is the largest share
/// that is not spent computing, unless it is too small to matter.
std::optional<Bottleneck> find_bottleneck(std::span<const InstanceTimes> instances,
                                          const BottleneckFacts& facts = {});

}  // namespace lockstep::monitor
