// What the dashboard shows of jobs, made of snapshots at times that the tests choose.
#include "lockstep/monitor/status/jobs_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lockstep::monitor {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A job of two instances, of which time passes as a test wants it to.
class JobsViewTest : public ::testing::Test {
 protected:
  JobsViewTest() {
    now_.steady_ns = 1'000'000'000'000;
    now_.jobs = {{.id = "job", .user = "ann"}};
    for (int i = 0; i < 2; ++i) {
      now_.jobs[0].instances.push_back(
          {.found = {.facts = {.host = "a", .process = 100 + i, .instance = i},
                     .state = {.phase = Phase::Training,
                               .epoch = 1,
                               .samples_per_second = 100,
                               .updated_ns = now_.steady_ns}}});
    }
  }

  WatchedInstance& instance(std::size_t index) { return now_.jobs[0].instances[index]; }
  InstanceState& state(std::size_t index) { return instance(index).found.state; }

  /// Seconds in which both instances make a step, and spend them so.
  void step(double seconds, const PhaseSeconds& first, const PhaseSeconds& second) {
    pass(seconds);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& shares = i == 0 ? first : second;
      state(i).seconds.data += seconds * shares.data;
      state(i).seconds.compute += seconds * shares.compute;
      state(i).seconds.reduce += seconds * shares.reduce;
      state(i).seconds.idle += seconds * shares.idle;
      ++state(i).step;
      state(i).updated_ns = now_.steady_ns;
    }
  }
  void step(double seconds, const PhaseSeconds& shares) { step(seconds, shares, shares); }
  void pass(double seconds) { now_.steady_ns += static_cast<std::int64_t>(seconds * 1e9); }

  DashboardJob shown() { return view_.update(now_).at(0); }
  DashboardInstance shown_instance(std::size_t index) { return shown().instances.at(index); }

  HostSnapshot now_;
  JobsView view_;
};

TEST_F(JobsViewTest, TellsWhatIsSlowNowAndNotWhatWasForHours) {
  step(36'000, {.compute = 1});
  EXPECT_THAT(shown().bottleneck, StartsWith("compute-bound"));
  for (int i = 0; i < 12; ++i) {
    step(1, {.data = 0.8, .compute = 0.2});
    shown();
  }
  const auto job = shown();
  EXPECT_THAT(job.bottleneck, HasSubstr("waited 80 % of the time for data"));
  EXPECT_NEAR(job.instances.at(1).time.value().data, 0.8, 1e-9);
}

TEST_F(JobsViewTest, TellsOfTheWholeRunUntilTwoSecondsOfItWereSeen) {
  step(100, {.compute = 1});
  shown();
  step(1.5, {.data = 1});
  EXPECT_THAT(shown().bottleneck, StartsWith("compute-bound"));
  step(0.6, {.data = 1});
  EXPECT_THAT(shown().bottleneck, StartsWith("input-bound"));
}

TEST_F(JobsViewTest, TakesTheLastStepWhereStepsTakeMinutes) {
  step(300, {.compute = 1});
  shown();
  step(300, {.data = 0.5, .compute = 0.5});
  EXPECT_NEAR(shown_instance(0).time.value().data, 0.5, 1e-9);
  pass(600);  // three of its steps are not over yet
  EXPECT_EQ(shown().samples_per_second, 200);
  pass(301);
  EXPECT_FALSE(shown().samples_per_second);
}

TEST_F(JobsViewTest, NamesTheInstanceThatHasBecomeSlow) {
  step(3600, {.compute = 1});
  EXPECT_FALSE(shown().slowest);
  for (int i = 0; i < 4; ++i) {
    step(1, {.compute = 0.3, .idle = 0.7}, {.compute = 1});
    shown();
  }
  EXPECT_EQ(shown().slowest, 1);
}

TEST_F(JobsViewTest, CallsItNetworkBoundWhereThereAreSeveralHosts) {
  step(10, {.compute = 0.5, .reduce = 0.5});
  EXPECT_THAT(shown().bottleneck, StartsWith("reduction-bound"));
  instance(1).found.facts.host = "b";
  EXPECT_THAT(shown().bottleneck, StartsWith("network-bound"));
}

TEST_F(JobsViewTest, CountsTheRatesOfThoseThatTrainAlone) {
  step(1, {.compute = 1});
  EXPECT_EQ(shown().samples_per_second, 200);
  for (const auto health : {Health::Stopped, Health::Ended, Health::Silent, Health::Damaged}) {
    instance(1).found.health = health;
    EXPECT_EQ(shown().samples_per_second, 100) << name_of(health);
    EXPECT_FALSE(shown_instance(1).samples_per_second) << name_of(health);
    EXPECT_FALSE(shown_instance(1).time) << name_of(health);
  }
  instance(1).found.health = Health::Running;
  state(1).phase = Phase::Evaluating;
  EXPECT_EQ(shown().samples_per_second, 100);
  EXPECT_TRUE(shown_instance(1).time) << "what it did last";
}

TEST_F(JobsViewTest, CountsNothingOfATrainingThatHangs) {
  step(1, {.compute = 1});
  pass(10);
  EXPECT_EQ(shown().samples_per_second, 200);
  pass(0.1);
  EXPECT_FALSE(shown().samples_per_second);
  EXPECT_EQ(shown().bottleneck, "");
  EXPECT_FALSE(shown_instance(0).time);
  EXPECT_EQ(shown().step, 1);
}

TEST_F(JobsViewTest, BeginsAnewWithAnotherProcess) {
  step(100, {.data = 1});
  shown();
  for (std::size_t i = 0; i < 2; ++i) {
    instance(i).found.facts.process += 50;
    instance(i).found.facts.restart_count = 1;
    state(i).seconds = {};
    state(i).step = 0;
  }
  step(1, {.compute = 1});
  EXPECT_EQ(shown().restarts, 1);
  EXPECT_THAT(shown().bottleneck, StartsWith("compute-bound"));
}

TEST_F(JobsViewTest, KeepsAnInstanceThatHasEndedUntilAnotherTakesItsPlace) {
  instance(0).found.facts.num_instances = instance(1).found.facts.num_instances = 2;
  instance(1).found.facts.device_ids = {3};
  step(1, {.compute = 1});
  shown();
  const auto second = instance(1);
  now_.jobs[0].instances.pop_back();
  const auto job = shown();
  EXPECT_FALSE(job.end);
  ASSERT_EQ(job.instances.size(), 2U);
  EXPECT_EQ(job.instances[1].index, 1);
  EXPECT_FALSE(job.instances[1].is_alive);
  EXPECT_EQ(job.instances[1].phase, "ended");
  EXPECT_EQ(job.instances[1].step, 1);
  EXPECT_EQ(job.instances[1].replicas.at(0).stage_devices.at(0), "cpu 3");
  EXPECT_FALSE(job.instances[1].samples_per_second || job.instances[1].time);
  now_.jobs[0].instances.push_back(second);
  EXPECT_TRUE(shown_instance(1).is_alive);
}

TEST_F(JobsViewTest, ForgetsAnEndedInstanceThatTheNextAttemptDoesNotHave) {
  shown();
  now_.jobs[0].instances.pop_back();
  instance(0).found.facts.restart_count = 1;
  instance(0).found.facts.num_instances = 1;
  EXPECT_EQ(shown().instances.size(), 1U);
}

TEST_F(JobsViewTest, KeepsTheLastNumbersWhileTheLauncherEndsTheJob) {
  step(1, {.compute = 1});
  state(0).loss = 0.5;
  const auto name = shown().name;
  now_.jobs[0].instances.clear();
  const auto job = shown();
  EXPECT_FALSE(job.end);
  EXPECT_EQ(job.name, name);
  EXPECT_EQ(job.step, 1);
  EXPECT_EQ(job.loss, 0.5);
  EXPECT_EQ(job.instances.size(), 2U);
}

TEST_F(JobsViewTest, KeepsAJobThatHasEndedWithItsInstances) {
  step(1, {.data = 0.8, .compute = 0.2});
  shown();
  auto jobs = std::exchange(now_.jobs, {});
  for (int look = 0; look < 3; ++look) {
    const auto job = shown();
    EXPECT_TRUE(job.end);
    EXPECT_EQ(job.id, "job");
    EXPECT_EQ(job.step, 1);
    EXPECT_FALSE(job.samples_per_second);
    EXPECT_EQ(job.bottleneck, "");
    ASSERT_EQ(job.instances.size(), 2U);
    EXPECT_EQ(job.instances[1].host, "a");
    EXPECT_FALSE(job.instances[1].is_alive || job.instances[1].time);
  }
  // Another launcher may use the same name again.
  now_.jobs = jobs;
  EXPECT_FALSE(shown().end);
  EXPECT_EQ(view_.update(now_).size(), 1U);
}

TEST_F(JobsViewTest, KeepsABoundedNumberOfEndedJobs) {
  const auto job = now_.jobs[0];
  for (int i = 0; i < 20; ++i) {
    now_.jobs = {job};
    now_.jobs[0].id = "job " + std::to_string(i);
    view_.update(now_);
  }
  const auto jobs = view_.update(now_);
  ASSERT_EQ(jobs.size(), 1 + JobsView::kMostEnded);
  EXPECT_EQ(jobs[0].id, "job 19");
  EXPECT_EQ(jobs[1].id, "job 18");
  EXPECT_EQ(jobs.back().id, "job 3");
}

}  // namespace
}  // namespace lockstep::monitor
