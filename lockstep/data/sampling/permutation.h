#pragma once

#include <array>
#include <cstdint>

#include "lockstep/data/sampling/draws.h"

namespace lockstep::data {

/// One permutation of 0..size-1, chosen by (seed, epoch, purpose): the same in every process.
///
/// Any entry is computed by itself, in some ten nanoseconds and without memory, so a stream can
/// begin in the middle of an epoch and a set may have more samples than would fit as a list.
///
/// How: a Feistel network permutes the numbers of k bits, with k just large enough for `size`; an
/// entry that falls outside is sent through it again until it falls inside ("cycle walking"), which
/// takes fewer than two passes on average; more for sets of fewer than 512, since k is at least 10:
/// the networks of very few bits reach only a part of all permutations.
class Permutation {
 public:
  /// `size` is at least 1.
  Permutation(std::uint64_t seed, std::uint32_t epoch, std::int64_t size,
              Purpose purpose = Purpose::Order) noexcept;

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(size_); }
  std::int64_t operator()(std::int64_t position) const noexcept;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t scramble(std::uint64_t value) const noexcept;

  std::uint64_t size_;
  int low_bits_;
  int high_bits_;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace lockstep::data
