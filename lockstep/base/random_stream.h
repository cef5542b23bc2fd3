#pragma once

#include <array>
#include <cstdint>

#include "lockstep/base/philox.h"

namespace lockstep {

/// Random words by number, for one use of randomness. It has no state: word n is the same whoever
/// draws it, in whatever order, on whatever device.
class RandomStream {
 public:
  constexpr explicit RandomStream(std::uint64_t key) noexcept : key_(key) {}

  /// Words 4n to 4n + 3.
  constexpr std::array<std::uint32_t, 4> words(std::uint64_t n) const noexcept {
    return philox(key_, {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, 0});
  }
  /// One number that stands for the whole stream, for generators that want a seed.
  constexpr std::uint64_t key() const noexcept { return key_; }

 private:
  std::uint64_t key_;
};

/// A stream for two numbers of a seed's own choosing. Streams of other numbers, or of another seed,
/// have nothing in common with it.
constexpr RandomStream stream_of(std::uint64_t seed, std::uint64_t first,
                                 std::uint64_t second) noexcept {
  const auto words =
      philox(seed, {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first >> 32),
                    static_cast<std::uint32_t>(second), static_cast<std::uint32_t>(second >> 32)});
  return RandomStream((std::uint64_t{words[0]} << 32) | words[1]);
}

}  // namespace lockstep
