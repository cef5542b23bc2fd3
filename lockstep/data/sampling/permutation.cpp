#include "lockstep/data/sampling/permutation.h"

#include <algorithm>
#include <bit>

namespace lockstep::data {
namespace {

constexpr int kFewestBits = 10;

/// The round function: any function will do, as long as each bit of the result depends on all bits
/// of the value and the key. This is the finalizer of splitmix64.
constexpr std::uint64_t mix(std::uint64_t value, std::uint64_t key) noexcept {
  value = (value ^ key) * 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint32_t epoch, std::int64_t size,
                         Purpose purpose) noexcept
    : size_(static_cast<std::uint64_t>(size)) {
  const int bits = std::max(static_cast<int>(std::bit_width(size_ - 1)), kFewestBits);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  const Draws draws{.seed = seed, .epoch = epoch, .sample = 0, .purpose = purpose};
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    keys_[round] = (std::uint64_t{draws.word(0, 2 * round)} << 32) | draws.word(0, 2 * round + 1);
  }
}

std::int64_t Permutation::operator()(std::int64_t position) const noexcept {
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = scramble(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::scramble(std::uint64_t value) const noexcept {
  const auto low_mask = (std::uint64_t{1} << low_bits_) - 1;
  const auto high_mask = (std::uint64_t{1} << high_bits_) - 1;
  auto low = value & low_mask;
  auto high = value >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    low ^= mix(high, keys_[static_cast<std::size_t>(round)]) & low_mask;
    high ^= mix(low, keys_[static_cast<std::size_t>(round) + 1]) & high_mask;
  }
  return (high << low_bits_) | low;
}

}  // namespace lockstep::data
