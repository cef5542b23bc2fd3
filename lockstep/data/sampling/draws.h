#pragma once

#include <cstdint>

#include "lockstep/base/philox.h"

namespace lockstep::data {

/// What random numbers are for. Each purpose has a stream of its own, so that a new use of
/// randomness never changes what an old one draws.
enum class Purpose : std::uint8_t { Augmentation, Order, Subset, Synthetic };

/// The random decisions about one sample in one epoch: a function of (seed, epoch, sample) alone.
/// It has no state. `word(place, n)` is the n-th word for the place-th step of a pipeline, so that
/// what one step draws never depends on how much the steps before it drew.
struct Draws {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;
  Purpose purpose = Purpose::Augmentation;

  constexpr std::uint32_t word(std::uint16_t place, std::uint32_t n) const noexcept {
    // Four words at a time; n / 4 is at most 2^8 - 1 for all that is drawn here.
    const auto counter = (static_cast<std::uint32_t>(purpose) << 28) |
                         (std::uint32_t{place} << 12) | ((n / 4) & 0xfffU);
    return philox(seed, {counter, epoch, static_cast<std::uint32_t>(sample),
                         static_cast<std::uint32_t>(sample >> 32)})[n % 4];
  }
  /// A number in [0, 1).
  constexpr float unit(std::uint16_t place, std::uint32_t n) const noexcept {
    return unit_float(word(place, n));
  }
  /// One of 0..count-1.
  constexpr std::uint32_t below(std::uint16_t place, std::uint32_t n,
                                std::uint32_t count) const noexcept {
    return lockstep::below(count, word(place, n));
  }
};

}  // namespace lockstep::data
