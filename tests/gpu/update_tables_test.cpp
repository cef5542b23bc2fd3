#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/gpu/update/chunks.h"
#include "lockstep/gpu/update/coefficient_table.h"
#include "lockstep/gpu/update/update.h"
#include "lockstep/optimizer/coefficients.h"
#include "tests/support/errors.h"

namespace lockstep::gpu {
namespace {

using testing::expect_error;

TEST(ChunksTest, AreTheBlocksOfTheCpuFromEachTensorsFirstElementOn) {
  const std::vector<Extent> tensors{{0, 8193}, {8208, 0}, {8208, 4096}, {12304, 5}};
  std::vector<std::vector<std::int64_t>> found;
  for (const auto& chunk : cut_into_chunks(tensors)) {
    found.push_back({chunk.first, chunk.count, chunk.tensor});
  }
  const std::vector<std::vector<std::int64_t>> expected{
      {0, 4096, 0}, {4096, 4096, 0}, {8192, 1, 0}, {8208, 4096, 2}, {12304, 5, 3}};
  EXPECT_EQ(found, expected);
}

TEST(ChunksTest, AreFoundByTensor) {
  const std::vector<Extent> tensors{{0, 8193}, {8208, 0}, {8208, 4096}, {12304, 5}};
  std::vector<std::vector<int>> found;
  for (const auto& range : chunk_ranges(tensors)) found.push_back({range.first, range.count});
  EXPECT_EQ(found, (std::vector<std::vector<int>>{{0, 3}, {3, 0}, {3, 1}, {4, 1}}));
}

TEST(ChunksTest, AreNotMoreThanAKernelCounts) {
  const std::vector<Extent> tensors{{0, std::int64_t{1} << 44}};
  expect_error([&] { cut_into_chunks(tensors); }, ErrorKind::Options, "4294967296");
  expect_error([&] { chunk_ranges(tensors); }, ErrorKind::Options, "4294967296");
}

// What parameters of a training differ in: some by group, and one was updated less often.
const std::vector<optimizer::ParameterSettings> kSettings{{.lr = 0.01, .weight_decay = 0.1},
                                                          {.lr = 0.01, .weight_decay = 0},
                                                          {.lr = 0.01, .weight_decay = 0.1},
                                                          {.lr = 0.3, .weight_decay = 0.1},
                                                          {.lr = 0.01, .weight_decay = 0.1}};
const std::vector<std::int64_t> kCounts{5, 5, 5, 5, 2};
const std::vector<double> kFactors{1, 0.75, 0.1};

bool same_bits(const Coefficients& left, const Coefficients& right) {
  return left.lr == right.lr && left.step_size == right.step_size &&
         left.weight_decay == right.weight_decay && left.shrink == right.shrink &&
         left.root_bias2 == right.root_bias2 && left.inverse_bias1 == right.inverse_bias1;
}

Coefficients adam_entry(const AdamOptions& options, const UpdateFacts& facts) {
  const auto adam = optimizer::adam_coefficients(options, facts, 1);
  return {.lr = facts.lr,
          .step_size = adam.step_size,
          .weight_decay = adam.weight_decay,
          .shrink = adam.shrink,
          .root_bias2 = adam.root_bias2,
          .inverse_bias1 = adam.inverse_bias1};
}

TEST(CoefficientTableTest, HasARowForEveryNumberOfUpdatesThatThereCanBe) {
  const auto optimizer = LAMB({.beta1 = 0.8, .beta2 = 0.99});
  std::vector<Coefficients> table(num_coefficient_rows(3, Skips::Possible) * 5);
  ASSERT_EQ(table.size(), 30U);
  fill_coefficients({optimizer, kSettings, kCounts, kFactors, Skips::Possible}, table);
  auto entry = table.begin();
  for (std::size_t step = 0; step < 3; ++step) {
    for (std::size_t updates = 0; updates <= step; ++updates) {
      EXPECT_EQ(coefficient_row(static_cast<int>(step), static_cast<int>(updates), Skips::Possible),
                (entry - table.begin()) / 5);
      for (std::size_t i = 0; i < 5; ++i) {
        const UpdateFacts facts{.lr = kSettings[i].lr * kFactors[step],
                                .weight_decay = kSettings[i].weight_decay,
                                .count = kCounts[i] + static_cast<std::int64_t>(updates) + 1};
        EXPECT_TRUE(same_bits(*entry++, adam_entry(optimizer.adam(), facts)))
            << step << " " << updates << " " << i;
      }
    }
  }
}

TEST(CoefficientTableTest, HasARowForEachStepWhereNoneIsSkipped) {
  const auto optimizer = AdamW();
  std::vector<Coefficients> table(num_coefficient_rows(3, Skips::Never) * 5);
  ASSERT_EQ(table.size(), 15U);
  fill_coefficients({optimizer, kSettings, kCounts, kFactors, Skips::Never}, table);
  for (std::size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(coefficient_row(static_cast<int>(step), 0, Skips::Never), static_cast<int>(step));
    for (std::size_t i = 0; i < 5; ++i) {
      const UpdateFacts facts{.lr = kSettings[i].lr * kFactors[step],
                              .weight_decay = kSettings[i].weight_decay,
                              .count = kCounts[i] + static_cast<std::int64_t>(step) + 1};
      EXPECT_TRUE(same_bits(table[step * 5 + i], adam_entry(optimizer.adam(), facts)));
    }
  }
}

TEST(CoefficientTableTest, HasTheLearningRateOfSgd) {
  const auto optimizer = SGD();
  std::vector<Coefficients> table(15);
  fill_coefficients({optimizer, kSettings, kCounts, kFactors, Skips::Never}, table);
  EXPECT_EQ(table[5 + 3].step_size, static_cast<float>(0.3 * 0.75));
  EXPECT_EQ(table[5 + 3].weight_decay, 0.1F);
}

TEST(CoefficientTableTest, RefusesATableOfAnotherSize) {
  std::vector<Coefficients> table(14);
  const auto optimizer = SGD();
  expect_error(
      [&] {
        fill_coefficients({optimizer, kSettings, kCounts, kFactors, Skips::Never}, table);
      },
      ErrorKind::Bug, "3 rows of 5 parameters, found 14 entries");
}

TEST(UpdateConstantsTest, AreRoundedAsOnTheCpu) {
  const auto rules = update_constants(AdamW({.beta1 = 0.8}).average_weights(0.999), 6, 3);
  EXPECT_EQ(rules.beta1, 0.8F);
  EXPECT_EQ(rules.rest1, static_cast<float>(1 - 0.8));
  EXPECT_EQ(rules.average_rest, static_cast<float>(1 - 0.999));
  EXPECT_EQ(rules.num_states, 2);
  EXPECT_EQ(rules.divisor, 6);
  EXPECT_EQ(rules.replicas, 3);
}

TEST(UpdateConstantsTest, AreNotThoseOfACustomOptimizer) {
  const auto custom = custom_optimizer({.update = [](const Slice&, const UpdateFacts&) {}});
  expect_error([&] { update_constants(custom, 1, 1); }, ErrorKind::Options, "custom");
}

}  // namespace
}  // namespace lockstep::gpu
