#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): four random words
/// for a key and a counter. It has no state, so what is drawn for one sample does not depend on who
/// draws it or on what was drawn before, and a GPU draws the same.
///
/// All arithmetic is on integers: the same words on every machine.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                              std::array<std::uint32_t, 4> counter) noexcept {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto product0 = kMultiplier0 * counter[0];
    const auto product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// A word as a number in [0, 1): its upper 24 bits, which a float holds exactly.
constexpr float unit_float(std::uint32_t word) noexcept {
  return static_cast<float>(word >> 8) * 0x1.0p-24F;
}

/// A word as one of 0..count-1, for count > 0. Uneven by less than count / 2^32.
constexpr std::uint32_t below(std::uint32_t count, std::uint32_t word) noexcept {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * count) >> 32);
}

}  // namespace lockstep
