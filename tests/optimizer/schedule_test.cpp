#include "lockstep/optimizer/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/errors.h"

namespace lockstep {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::expect_error;
using ::testing::Pointwise;

/// The factors of a whole run, and of two steps beyond it.
std::vector<double> factors(const Schedule& schedule, const RunLength& length) {
  check(schedule, length);
  std::vector<double> all;
  for (std::int64_t step = 0; step < length.steps_per_epoch * length.epochs + 2; ++step) {
    all.push_back(factor(schedule, length, step));
  }
  return all;
}

void expect_factors(const Schedule& schedule, const RunLength& length,
                    const std::vector<double>& expected) {
  EXPECT_THAT(factors(schedule, length), Pointwise(::testing::DoubleNear(1e-15), expected));
}

TEST(ScheduleTest, ConstantStaysOne) {
  expect_factors({}, {.steps_per_epoch = 2, .epochs = 2}, {1, 1, 1, 1, 1, 1});
}

TEST(ScheduleTest, WarmsUpAStepAtATime) {
  expect_factors({.warmup_epochs = 2}, {.steps_per_epoch = 2, .epochs = 3},
                 {0.25, 0.5, 0.75, 1, 1, 1, 1, 1});
}

TEST(ScheduleTest, RoundsTheWarmUpToWholeSteps) {
  // 0.3 of 10 steps is a little less than 3 in binary.
  expect_factors({.warmup_epochs = 0.3}, {.steps_per_epoch = 10, .epochs = 1},
                 {1. / 3, 2. / 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  expect_factors({.warmup_epochs = 0.4}, {.steps_per_epoch = 1, .epochs = 2}, {1, 1, 1, 1});
}

TEST(ScheduleTest, StepFallsAfterSoManyEpochsOfTheRest) {
  expect_factors({.kind = ScheduleKind::Step, .step_epochs = 1, .step_factor = 0.5},
                 {.steps_per_epoch = 2, .epochs = 3}, {1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25});
  expect_factors(
      {.kind = ScheduleKind::Step, .warmup_epochs = 0.5, .step_epochs = 1, .step_factor = 0.5},
      {.steps_per_epoch = 2, .epochs = 3}, {1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25});
}

TEST(ScheduleTest, StepFallsAtTheNearestStepWhereEpochsAreBroken) {
  // 0.1 of 30 steps is a little more than 3 in binary; 1.5 of 3 steps are 4.5, and twice that 9.
  const Schedule tenths{.kind = ScheduleKind::Step, .step_epochs = 0.1, .step_factor = 0.5};
  EXPECT_EQ(factor(tenths, {.steps_per_epoch = 30, .epochs = 1}, 2), 1);
  EXPECT_EQ(factor(tenths, {.steps_per_epoch = 30, .epochs = 1}, 3), 0.5);
  EXPECT_EQ(factor(tenths, {.steps_per_epoch = 30, .epochs = 1}, 29), std::pow(0.5, 9));
  expect_factors({.kind = ScheduleKind::Step, .step_epochs = 1.5, .step_factor = 0.5},
                 {.steps_per_epoch = 3, .epochs = 4},
                 {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25});
}

TEST(ScheduleTest, CosineRunsFromOneDownToTheFinalFactor) {
  const auto root = std::sqrt(0.5);
  expect_factors({.kind = ScheduleKind::Cosine}, {.steps_per_epoch = 4, .epochs = 1},
                 {1, (1 + root) / 2, 0.5, (1 - root) / 2, (1 - root) / 2, (1 - root) / 2});
  expect_factors(
      {.kind = ScheduleKind::Cosine, .warmup_epochs = 1, .final_factor = 0.2},
      {.steps_per_epoch = 2, .epochs = 3},
      {0.5, 1, 1, 0.6 + 0.4 * root, 0.6, 0.6 - 0.4 * root, 0.6 - 0.4 * root, 0.6 - 0.4 * root});
}

TEST(ScheduleTest, LinearRunsFromOneDownToTheFinalFactor) {
  expect_factors({.kind = ScheduleKind::Linear}, {.steps_per_epoch = 1, .epochs = 4},
                 {1, 0.75, 0.5, 0.25, 0.25, 0.25});
  expect_factors({.kind = ScheduleKind::Linear, .warmup_epochs = 2, .final_factor = 0.5},
                 {.steps_per_epoch = 1, .epochs = 4}, {0.5, 1, 1, 0.75, 0.75, 0.75});
}

TEST(ScheduleTest, EachKindIsReadAsItIsWritten) {
  EXPECT_THAT(schedule_names(), ElementsAre("constant", "step", "cosine", "linear"));
  for (const auto kind :
       {ScheduleKind::Constant, ScheduleKind::Step, ScheduleKind::Cosine, ScheduleKind::Linear}) {
    EXPECT_EQ(parse_schedule(name_of(kind)), kind);
  }
  EXPECT_EQ(parse_schedule("cosine"), ScheduleKind::Cosine);
  expect_error([] { parse_schedule("cosin"); }, ErrorKind::Options,
               "schedule: expected one of constant, step, cosine, linear, found 'cosin'\n"
               "did you mean 'cosine'?");
}

void expect_refused(const Schedule& schedule, const RunLength& length, const std::string& text) {
  expect_error([&] { check(schedule, length); }, ErrorKind::Options, text);
}

TEST(ScheduleTest, RefusesRunsWithoutSteps) {
  expect_refused({}, {.steps_per_epoch = 0, .epochs = 1},
                 "schedule: expected at least 1 step in an epoch, found 0");
  expect_refused({}, {.steps_per_epoch = 1, .epochs = 0},
                 "schedule: expected at least 1 epoch, found 0");
}

TEST(ScheduleTest, RefusesAWarmUpAsLongAsTheRun) {
  const RunLength length{.steps_per_epoch = 10, .epochs = 5};
  check({.warmup_epochs = 4.9}, length);
  expect_refused({.warmup_epochs = 5}, length,
                 "schedule: expected a warm-up shorter than the run's 50 steps, found 50 "
                 "(5 epochs)\nwarm up for fewer epochs, or train for more");
  expect_refused({.warmup_epochs = 1e300}, length, "shorter than the run's 50 steps");
  expect_refused({.warmup_epochs = -1}, length,
                 "schedule: expected a warm-up of 0 or more, found -1");
  expect_refused({.warmup_epochs = std::numeric_limits<double>::infinity()}, length,
                 "schedule: expected a warm-up of 0 or more, found inf");
}

TEST(ScheduleTest, RefusesFactorsThatCannotBeMeant) {
  const RunLength length{.steps_per_epoch = 10, .epochs = 5};
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  expect_refused({.step_epochs = 0}, length,
                 "schedule: expected more than 0 epochs from fall to fall, found 0");
  expect_refused({.step_epochs = nan}, length, "fall to fall, found nan");
  expect_refused({.step_factor = -0.5}, length,
                 "schedule: expected a step factor of 0 or more, found -0.5");
  expect_refused({.final_factor = -1}, length,
                 "schedule: expected a final factor of 0 or more, found -1");
  expect_refused({.final_factor = nan}, length, "a final factor of 0 or more, found nan");
}

}  // namespace
}  // namespace lockstep
