#include "lockstep/data/sampling/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace lockstep::data {
namespace {

std::vector<std::int64_t> entries(const Permutation& permutation) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < permutation.size(); ++i) all.push_back(permutation(i));
  return all;
}

TEST(PermutationTest, HoldsEveryNumberOnce) {
  for (const std::int64_t size : {1, 2, 3, 5, 1023, 1024, 1025, 50'000, 65'536, 65'537}) {
    auto all = entries(Permutation(7, 3, size));
    std::sort(all.begin(), all.end());
    for (std::int64_t i = 0; i < size; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i) << size;
  }
}

TEST(PermutationTest, StaysWithinASetThatNoListCouldHold) {
  const std::int64_t size = (std::int64_t{1} << 62) + 12345;
  const Permutation permutation(1, 0, size);
  for (const std::int64_t position : {std::int64_t{0}, size / 2, size - 1}) {
    EXPECT_GE(permutation(position), 0);
    EXPECT_LT(permutation(position), size);
  }
}

TEST(PermutationTest, DiffersBySeedEpochAndPurpose) {
  const auto base = entries(Permutation(1, 0, 1000));
  EXPECT_EQ(base, entries(Permutation(1, 0, 1000)));
  EXPECT_NE(base, entries(Permutation(2, 0, 1000)));
  EXPECT_NE(base, entries(Permutation(1, 1, 1000)));
  EXPECT_NE(base, entries(Permutation(1, 0, 1000, Purpose::Subset)));
}

// The order of samples is part of the contract: it may never change in silence.
TEST(PermutationTest, IsTheSameInEveryVersion) {
  auto first = entries(Permutation(2022, 1, 50'000));
  first.resize(6);
  EXPECT_EQ(first, (std::vector<std::int64_t>{27821, 22553, 12069, 47421, 16580, 42565}));
}

TEST(PermutationTest, AllOrdersOfFiveComeEquallyOften) {
  constexpr int kRounds = 12'000;
  std::map<std::vector<std::int64_t>, int> counts;
  for (int epoch = 0; epoch < kRounds; ++epoch) {
    ++counts[entries(Permutation(99, static_cast<std::uint32_t>(epoch), 5))];
  }
  ASSERT_EQ(counts.size(), 120U);
  double chi_square = 0;
  for (const auto& [order, count] : counts) {
    chi_square += (count - kRounds / 120.0) * (count - kRounds / 120.0) / (kRounds / 120.0);
  }
  // 119 degrees of freedom: 99.9 % of truly random counts stay below 173.
  EXPECT_LT(chi_square, 173);
}

TEST(PermutationTest, NoPlaceFavoursANumber) {
  constexpr std::int64_t kSize = 37;
  constexpr int kRounds = 20'000;
  std::vector<int> counts(kSize * kSize);
  for (int epoch = 0; epoch < kRounds; ++epoch) {
    const Permutation permutation(5, static_cast<std::uint32_t>(epoch), kSize);
    for (std::int64_t i = 0; i < kSize; ++i) {
      ++counts[static_cast<std::size_t>(i * kSize + permutation(i))];
    }
  }
  const double expected = double{kRounds} / kSize;
  double chi_square = 0;
  for (const auto count : counts) chi_square += (count - expected) * (count - expected) / expected;
  // 36 * 36 degrees of freedom: mean 1296, deviation 51.
  EXPECT_LT(chi_square, 1296 + 4 * 51);
}

TEST(PermutationTest, NeighboursAreNotSentToNeighbours) {
  constexpr std::int64_t kSize = 50'000;
  const Permutation permutation(3, 0, kSize);
  int close = 0;
  for (std::int64_t i = 1; i < kSize; ++i) {
    close += std::abs(permutation(i) - permutation(i - 1)) < 50 ? 1 : 0;
  }
  // Two random places are closer than 50 with a probability of about 100 / 50000.
  EXPECT_NEAR(close, 100, 50);
}

}  // namespace
}  // namespace lockstep::data
