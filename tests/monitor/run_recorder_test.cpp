#include "lockstep/monitor/export/run_recorder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::monitor {
namespace {

using testing::ScratchFolder;
using Points = std::vector<ReportPoint>;

/// A recorder with a clock that the test moves, of a run with 2 steps and 16 samples an iteration.
class RunRecorderTest : public ::testing::Test {
 protected:
  RunRecorder make(const std::string& file = "") {
    return RunRecorder(
        {.steps_per_iteration = 2, .samples_per_iteration = 16, .file = file, .now = [this] {
           return now_;
         }});
  }

  /// An iteration of half a second.
  void iterate(RunRecorder& recorder, std::int64_t epoch, std::int64_t iteration, double loss) {
    now_ += 0.5;
    recorder.on_iteration(
        epoch, iteration,
        IterationResult{StepResult{.loss = loss, .metrics = {{"acc", 10 * loss}}}, {}});
  }

  double now_ = 100;
};

/// The points of a curve; none if there is no such curve.
Points points_of(RunRecorder& recorder, const std::string& chart, const std::string& curve) {
  for (const auto& each : recorder.charts()) {
    if (each.title != chart) continue;
    for (const auto& [name, points] : each.curves) {
      if (name == curve) return points;
    }
  }
  return {};
}

TEST_F(RunRecorderTest, DrawsLossMetricsAndThroughputByOptimizerStep) {
  auto recorder = make();
  recorder.on_epoch_begin(1, 2);
  iterate(recorder, 1, 1, 4);
  iterate(recorder, 1, 2, 3);
  recorder.on_epoch_trained(1, {.loss = 3.5});
  recorder.on_validation_begin(1, 1);
  now_ += 100;
  recorder.on_validated(1, {.loss = 3.25, .metrics = {{"acc", 20}, {"top5", 90}}});
  recorder.on_epoch_begin(2, 2);
  iterate(recorder, 2, 1, 2);
  const auto charts = recorder.charts();
  ASSERT_EQ(charts.size(), 4U);
  EXPECT_EQ(charts[0].title, "Loss");
  EXPECT_EQ(charts[1].title, "Accuracy");
  EXPECT_EQ(charts[1].unit, "%");
  EXPECT_EQ(charts[2].title, "top5");
  EXPECT_EQ(charts[2].curves.size(), 1U);
  EXPECT_EQ(charts[3].title, "Throughput");
  EXPECT_EQ(points_of(recorder, "Loss", "training"), (Points{{2, 4}, {4, 3}, {6, 2}}));
  EXPECT_EQ(points_of(recorder, "Accuracy", "training"), (Points{{2, 40}, {4, 30}, {6, 20}}));
  EXPECT_EQ(points_of(recorder, "Loss", "test"), (Points{{4, 3.25}}));
  EXPECT_EQ(points_of(recorder, "top5", "test"), (Points{{4, 90}}));
  // The evaluation is no part of it.
  EXPECT_EQ(points_of(recorder, "Throughput", "training"), (Points{{2, 32}, {4, 32}, {6, 32}}));
  EXPECT_EQ(recorder.first_step(), 2);
  EXPECT_EQ(recorder.last_step(), 6);
  EXPECT_EQ(recorder.epoch(), 2);
}

TEST_F(RunRecorderTest, HasAnEmptyChartOfTheLossAtFirst) {
  auto recorder = make();
  const auto charts = recorder.charts();
  ASSERT_EQ(charts.size(), 1U);
  EXPECT_EQ(charts[0].title, "Loss");
  EXPECT_TRUE(charts[0].curves.empty());
  EXPECT_EQ(recorder.first_step(), 0);
}

TEST_F(RunRecorderTest, KeepsNotices) {
  auto recorder = make();
  recorder.on_notice("half as fast");
  ASSERT_EQ(recorder.notices().size(), 1U);
  EXPECT_EQ(recorder.notices()[0].name, "note");
  EXPECT_EQ(recorder.notices()[0].text, "half as fast");
  EXPECT_GT(recorder.notices()[0].unix_s, 1.7e9);
}

TEST_F(RunRecorderTest, TakesMeansInLongRuns) {
  auto recorder = make();
  constexpr std::int64_t kIterations = 200000;
  recorder.on_epoch_begin(1, kIterations);
  for (std::int64_t i = 1; i <= kIterations; ++i) {
    iterate(recorder, 1, i, static_cast<double>(i));
  }
  const auto points = points_of(recorder, "Loss", "training");
  EXPECT_LT(points.size(), 16000U);
  EXPECT_EQ(points[2047], (ReportPoint{4096, 2048}));
  EXPECT_EQ(points[2048], (ReportPoint{4100, 2049.5})) << "the mean of two iterations";
  EXPECT_EQ(points.back().x, 2.0 * kIterations) << "no iteration is left out";
  EXPECT_EQ(points_of(recorder, "Throughput", "training").back().y, 32);
}

TEST_F(RunRecorderTest, ContinuesTheCurvesOfAnEarlierAttempt) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/curves";
  {
    auto recorder = make(file);
    recorder.on_epoch_begin(1, 4);
    for (const int i : {1, 2, 3, 4}) iterate(recorder, 1, i, 10 - i);
    recorder.on_epoch_trained(1, {.loss = 7.5});
    recorder.on_validated(1, {.loss = 5, .metrics = {{"acc", 20}}});
    recorder.on_epoch_begin(2, 4);
    iterate(recorder, 2, 1, std::numeric_limits<double>::quiet_NaN());
  }
  {
    auto second = make(file);
    // From a checkpoint after step 6: the last iteration of the first epoch is made again.
    EXPECT_EQ(second.first_step(), 2);
    second.on_epoch_begin(1, 4);
    iterate(second, 1, 4, 6.5);
    EXPECT_EQ(points_of(second, "Loss", "training"), (Points{{2, 9}, {4, 8}, {6, 7}, {8, 6.5}}));
    EXPECT_EQ(points_of(second, "Loss", "test"), (Points{{8, 5}}));
    EXPECT_EQ(points_of(second, "Accuracy", "test"), (Points{{8, 20}}));
  }
  auto third = make(file);
  EXPECT_EQ(points_of(third, "Loss", "training"), (Points{{2, 9}, {4, 8}, {6, 7}, {8, 6.5}}));
  EXPECT_EQ(points_of(third, "Throughput", "training").size(), 4U);
}

TEST_F(RunRecorderTest, ReadsValuesThatAreNotFinite) {
  const ScratchFolder folder;
  const auto file = folder.write("curves", "2 nan train/loss\n4 inf train/loss\n");
  auto recorder = make(file);
  const auto points = points_of(recorder, "Loss", "training");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_TRUE(std::isnan(points[0].y));
  EXPECT_TRUE(std::isinf(points[1].y));
}

TEST_F(RunRecorderTest, LeavesOutLinesThatACrashHasCut) {
  const ScratchFolder folder;
  const auto file =
      folder.write("curves", "2 9 train/loss\n\nx\n4\n4 \n4 8\n4 8 \n4 8x train/loss\n6 7 train/l");
  {
    auto recorder = make(file);
    recorder.on_epoch_begin(1, 4);
    iterate(recorder, 1, 4, 6);
  }
  auto again = make(file);
  EXPECT_EQ(points_of(again, "Loss", "training"), (Points{{2, 9}, {8, 6}}));
  EXPECT_EQ(again.charts().size(), 3U) << "loss, accuracy and throughput";
}

TEST_F(RunRecorderTest, GoesOnWithoutAFileThatCannotBeUsed) {
  auto recorder = make("/no/such/folder/curves");
  recorder.on_epoch_begin(1, 4);
  iterate(recorder, 1, 1, 9);
  EXPECT_EQ(points_of(recorder, "Loss", "training"), (Points{{2, 9}}));
}

}  // namespace
}  // namespace lockstep::monitor
