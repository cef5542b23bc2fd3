#include "lockstep/ui/run_forecast.h"

#include <gtest/gtest.h>

#include "tests/ui/screen.h"

namespace lockstep::ui {
namespace {

using namespace std::chrono_literals;
using testing::Screen;

/// A forecast with a clock that the test moves.
class RunForecastTest : public ::testing::Test {
 protected:
  void begin_epoch(std::int64_t epoch, std::int64_t iterations, std::int64_t epochs,
                   std::int64_t evaluations = 0) {
    forecast_.begin_epoch({epoch, iterations, epochs, evaluations}, now_);
  }
  /// The iterations from `first` to `last`, each of which takes `seconds`.
  void iterate(std::int64_t first, std::int64_t last, std::chrono::seconds seconds) {
    for (auto i = first; i <= last; ++i) {
      now_ += seconds;
      forecast_.end_iteration(i, now_);
    }
  }
  void evaluate(std::chrono::seconds seconds) {
    forecast_.begin_evaluation(now_);
    now_ += seconds;
    forecast_.end_evaluation(now_);
  }
  /// In seconds; -1: there is no forecast.
  double left() const { return forecast_.time_left().value_or(RunForecast::Seconds(-1)).count(); }

  RunForecast forecast_;
  RunForecast::Time now_{};
};

TEST_F(RunForecastTest, CountsAllEpochsButNotTheWarmUp) {
  begin_epoch(1, 10, 4);
  EXPECT_EQ(left(), -1);
  iterate(1, 1, 30s);
  EXPECT_EQ(left(), -1) << "the first iteration says nothing of the others";
  iterate(2, 2, 3s);
  EXPECT_EQ(left(), -1) << "3 s are too little";
  iterate(3, 3, 3s);
  EXPECT_EQ(left(), 37 * 3);
  iterate(4, 10, 3s);
  EXPECT_EQ(left(), 30 * 3);
  now_ += 100s;  // between epochs
  begin_epoch(2, 10, 4);
  EXPECT_EQ(left(), 30 * 3);
  iterate(1, 9, 6s);
  EXPECT_EQ(left(), 21 * 4.5) << "9 iterations took 3 s, and 9 took 6 s";
}

TEST_F(RunForecastTest, CountsEvaluationsWhenOneWasMeasured) {
  begin_epoch(1, 10, 4, 2);
  iterate(1, 10, 10s);
  EXPECT_EQ(left(), 300);
  evaluate(40s);
  EXPECT_EQ(left(), 300 + 40);
  begin_epoch(2, 10, 4, 1);
  iterate(1, 10, 10s);
  EXPECT_EQ(left(), 200 + 40);
  begin_epoch(4, 10, 4, 1);
  iterate(1, 10, 10s);
  EXPECT_EQ(left(), 40);
  evaluate(60s);
  EXPECT_EQ(left(), 0);
}

TEST_F(RunForecastTest, MeasuresAResumedRunFromItsFirstIteration) {
  begin_epoch(3, 100, 5);
  iterate(51, 56, 2s);
  EXPECT_EQ(left(), (44 + 200) * 2);
}

TEST_F(RunForecastTest, SaysNothingOfShortRuns) {
  begin_epoch(1, 10, 2);
  iterate(1, 10, 2s);
  EXPECT_EQ(left(), -1) << "40 s in all";
  begin_epoch(2, 10, 2);
  iterate(1, 1, 30s);
  EXPECT_GT(left(), 0) << "now it is more than a minute";
}

TEST_F(RunForecastTest, SaysNothingOfOneEpochOrOfAnUnknownNumber) {
  for (const std::int64_t epochs : {0, 1}) {
    begin_epoch(1, 1000, epochs);
    iterate(1, 10, 10s);
    EXPECT_EQ(left(), -1) << epochs;
  }
}

TEST_F(RunForecastTest, IgnoresAnEvaluationThatHasNotBegun) {
  begin_epoch(1, 10, 4, 4);
  iterate(1, 10, 10s);
  forecast_.end_evaluation(now_ + 100s);
  EXPECT_EQ(left(), 300);
}

TEST(EndTextTest, NamesTheDayUnlessItIsToday) {
  const Screen screen;  // Monday, 14:00
  const auto text = [&](std::chrono::seconds left) {
    return end_text(left,
                    [&](std::chrono::seconds from_now) { return screen.local_time(from_now); });
  };
  EXPECT_EQ(text(0s), "14:00");
  EXPECT_EQ(text(12min), "14:12");
  EXPECT_EQ(text(10h - 1s), "23:59");
  EXPECT_EQ(text(10h), "Tue 00:00");
  EXPECT_EQ(text(5 * 24h), "Sat 14:00");
  EXPECT_EQ(text(6 * 24h), "2026-11-22 14:00");
  EXPECT_EQ(text(-5s), "14:00");
}

TEST(EndTextTest, BearsNumbersThatAreNoTimes) {
  const Screen screen;
  const auto clock = [&](std::chrono::seconds from_now) { return screen.local_time(from_now); };
  EXPECT_EQ(end_text(RunForecast::Seconds(1e300), clock).substr(0, 4), "2126");
}

TEST(EndTextTest, AgreesWithTheClockOfThisMachine) {
  const auto now = local_time_of_this_machine(0s);
  const auto later = local_time_of_this_machine(400 * 24h);
  EXPECT_GT(later.tm_year, now.tm_year);
}

TEST(DurationTextTest, NamesTheTwoLargestUnits) {
  EXPECT_EQ(duration_text(29s), "less than 1 min");
  EXPECT_EQ(duration_text(31s), "1 min");
  EXPECT_EQ(duration_text(12min + 20s), "12 min");
  EXPECT_EQ(duration_text(3h + 5min), "3 h 05 min");
  EXPECT_EQ(duration_text(47h + 59min), "47 h 59 min");
  EXPECT_EQ(duration_text(99h), "4 days 3 h");
}

}  // namespace
}  // namespace lockstep::ui
