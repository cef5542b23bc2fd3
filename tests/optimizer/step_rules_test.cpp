#include "lockstep/optimizer/step_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::optimizer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(StepRulesTest, ClipsANormThatIsTooLarge) {
  const StepRules rules{.clip_norm = 2};
  EXPECT_TRUE(rules.measures_gradients());
  EXPECT_EQ(rules.clip_factor(1), 1);
  EXPECT_FLOAT_EQ(rules.clip_factor(64), 0.25F);
  EXPECT_EQ(rules.clip_factor(kNan), 1);
  EXPECT_EQ(rules.clip_factor(INFINITY), 0);
}

TEST(StepRulesTest, WithoutRulesNothingIsMeasuredOrChanged) {
  const StepRules rules;
  EXPECT_FALSE(rules.measures_gradients());
  EXPECT_FALSE(rules.averages());
  EXPECT_EQ(rules.clip_factor(1e30), 1);
  const auto scale = rules.next_scale({.value = 8, .good_steps = 3}, /*is_skipped=*/false);
  EXPECT_EQ(scale.value, 8);
  EXPECT_EQ(scale.good_steps, 3);
}

TEST(StepRulesTest, HalvesTheLossScaleAfterAnOverflow) {
  const StepRules rules{.has_loss_scaling = true};
  auto scale = rules.next_scale({.value = 4, .good_steps = 1999}, /*is_skipped=*/true);
  EXPECT_EQ(scale.value, 2);
  EXPECT_EQ(scale.good_steps, 0);
  scale = rules.next_scale(rules.next_scale(scale, true), true);
  EXPECT_EQ(scale.value, 1) << "the smallest scale";
}

TEST(StepRulesTest, DoublesTheLossScaleAfterStepsWithoutAnOverflow) {
  const StepRules rules{.has_loss_scaling = true, .steps_to_grow = 3, .largest_scale = 8};
  LossScale scale{.value = 2};
  std::vector<double> values;
  for (int step = 0; step < 9; ++step) {
    scale = rules.next_scale(scale, /*is_skipped=*/false);
    values.push_back(scale.value);
  }
  EXPECT_EQ(values, (std::vector<double>{2, 2, 4, 4, 4, 8, 8, 8, 8}));
}

}  // namespace
}  // namespace lockstep::optimizer
