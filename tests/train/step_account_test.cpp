#include "lockstep/train/engine/step_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/errors.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kReplicas = 2;

WeightLayout layout_of_two_parameters() {
  WeightLayout layout;
  layout.parameters.resize(2);
  layout.parameters[0].name = "weight";
  layout.parameters[1].name = "bias";
  return layout;
}

class StepAccountTest : public ::testing::Test {
 protected:
  StepAccount account(const optimizer::StepRules& rules = {}) {
    return StepAccount({.weights = layout_,
                        .totals = layout_of_totals_,
                        .rules = rules,
                        .metric_scales = {100},
                        .tell = [this](const std::string& text) { told_.push_back(text); }});
  }

  /// The totals of a step in which both parameters have gradients.
  std::vector<float> totals(float loss0, float loss1, float correct = 0) {
    std::vector<float> numbers(layout_of_totals_.count());
    const std::span<float> all(numbers);
    std::ranges::fill(layout_of_totals_.changed(all), 1.0F);
    layout_of_totals_.losses(all)[0] = loss0;
    layout_of_totals_.losses(all)[1] = loss1;
    layout_of_totals_.metrics(all)[0] = correct;
    return numbers;
  }

  WeightLayout layout_ = layout_of_two_parameters();
  LeafTotals layout_of_totals_{layout_, kReplicas, 1};
  std::vector<std::string> told_;
};

TEST_F(StepAccountTest, ReportsMeansOverReplicasAndSamples) {
  auto steps = account();
  steps.begin({.samples = 8});
  const auto output = steps.report(totals(1, 3, 6), {}, /*is_skipped=*/false);
  EXPECT_EQ(output.loss, 2);
  EXPECT_THAT(output.metrics, ElementsAre(75.0));
  EXPECT_THAT(output.replica_losses, ElementsAre(1.0F, 3.0F));
  EXPECT_FALSE(output.skipped);
}

TEST_F(StepAccountTest, AdvancesTheProgressWithinAnEpochAndIntoTheNext) {
  auto steps = account();
  steps.begin({.epoch = 4, .begins_epoch = true, .loop = 1, .loop_epoch = 5, .samples = 8});
  auto progress = steps.advance({}, totals(1, 3, 6), false);
  steps.report(totals(1, 3, 6), {}, false);
  EXPECT_EQ(progress.steps, 1);
  EXPECT_EQ(progress.updates, 1);
  EXPECT_EQ(progress.loop_epoch, 5);
  progress = steps.advance(progress, totals(3, 3, 8), false);
  EXPECT_EQ(progress.epoch, 4);
  EXPECT_EQ(progress.epoch_steps, 2) << "only the first step of a launch begins the epoch";
  EXPECT_EQ(progress.epoch_loss, 5);
  EXPECT_EQ(progress.epoch_metrics[0], 175);
  steps.begin({.epoch = 5, .begins_epoch = true, .samples = 8});
  progress = steps.advance(progress, totals(4, 4), false);
  EXPECT_EQ(progress.epoch_steps, 1);
  EXPECT_EQ(progress.epoch_loss, 4);
  EXPECT_EQ(progress.steps, 3);
}

TEST_F(StepAccountTest, NotesThatSamplesCameFromSeveralLoaders) {
  auto steps = account();
  steps.begin({.loader = 1});
  auto progress = steps.advance({}, totals(1, 1), false);
  EXPECT_EQ(progress.loader, 1);
  steps.begin({.loader = 2});
  EXPECT_EQ(steps.advance(progress, totals(1, 1), false).loader, kSeveralLoaders);
}

TEST_F(StepAccountTest, RefusesALossThatIsNotFinite) {
  auto steps = account();
  expect_error([&] { steps.check(totals(1, kNan), {.steps = 6}); }, ErrorKind::Diverged,
               "the loss of replica 1 is nan at step 7; there was no step before it");
  steps.report(totals(1, 2), {}, false);
  expect_error([&] { steps.check(totals(INFINITY, 1), {.steps = 7}); }, ErrorKind::Diverged,
               "the loss of replica 0 is inf at step 8; the last finite losses were 1, 2");
}

TEST_F(StepAccountTest, LossScalingMaySkipAStepUntilTheScaleIsOne) {
  auto steps = account({.has_loss_scaling = true});
  const auto overflow = totals(INFINITY, 1);
  EXPECT_NO_THROW(steps.check(overflow, {.loss_scale = 2}));
  const auto next = steps.advance({.loss_scale = 2, .good_steps = 9}, overflow, true);
  EXPECT_EQ(next.steps, 1);
  EXPECT_EQ(next.updates, 0);
  EXPECT_EQ(next.loss_scale, 1);
  EXPECT_EQ(next.good_steps, 0);
  EXPECT_TRUE(steps.report(overflow, {.loss_scale = 2}, true).skipped);
  expect_error([&] { steps.check(overflow, next); }, ErrorKind::Diverged, "the loss of replica 0");
  expect_error([&] { steps.report(totals(1, 1), next, true); }, ErrorKind::Diverged,
               "gradients are not finite at step 2, with a loss scale of 1");
}

TEST_F(StepAccountTest, ReportsAParameterWithoutAGradientOnce) {
  auto steps = account();
  auto numbers = totals(1, 1);
  layout_of_totals_.changed(std::span<float>(numbers))[1] = 0;
  steps.check(numbers, {});
  steps.check(numbers, {});
  EXPECT_THAT(
      told_, ElementsAre("no replica has a gradient for these parameters, so they are not updated: "
                         "bias"));
}

class StepRequestsTest : public ::testing::Test {
 protected:
  /// The requests that two instances exchange with a step.
  std::array<float, LeafTotals::kRequests> exchange() {
    std::array<float, LeafTotals::kRequests> sum{};
    for (auto* requests : {&first_, &second_}) {
      std::array<float, LeafTotals::kRequests> own{};
      requests->write_into(own);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    first_.receive(sum);
    second_.receive(sum);
    return sum;
  }

  StepRequests first_{0};
  StepRequests second_{1};
};

TEST_F(StepRequestsTest, ARequestToStopReachesAllInstancesAndStays) {
  EXPECT_FALSE(StepRequests::is_stop(exchange()));
  second_.make(Request::Stop);
  EXPECT_TRUE(StepRequests::is_stop(exchange()));
  EXPECT_TRUE(StepRequests::is_stop(exchange()));
}

TEST_F(StepRequestsTest, ACheckpointRequestOfAnotherInstanceIsTakenOnce) {
  second_.make(Request::Checkpoint);
  exchange();
  EXPECT_TRUE(first_.take_checkpoint_request());
  exchange();
  EXPECT_FALSE(first_.take_checkpoint_request());
}

TEST_F(StepRequestsTest, ASignalThatAllInstancesReceiveIsOneRequest) {
  first_.make(Request::Checkpoint);
  second_.make(Request::Checkpoint);
  EXPECT_TRUE(first_.take_checkpoint_request()) << "immediately";
  exchange();
  EXPECT_FALSE(first_.take_checkpoint_request()) << "the same signal, from the other instance";
  second_.make(Request::Checkpoint);
  exchange();
  EXPECT_TRUE(first_.take_checkpoint_request()) << "a later request";
}

}  // namespace
}  // namespace lockstep::train
