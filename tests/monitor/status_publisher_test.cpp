#include "lockstep/monitor/status/status_publisher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/version.h"
#include "lockstep/monitor/status/read_page.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::monitor {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class StatusPublisherTest : public ::testing::Test {
 protected:
  topology::Environment environment() const {
    return topology::Environment({{"TMPDIR", scratch_.path()}});
  }
  PageContent read(const StatusPublisher& publisher) const {
    const UniqueFd file(::open(publisher.path().c_str(), O_RDONLY | O_CLOEXEC));
    return read_page(file.get());
  }
  testing::ScratchFolder scratch_;
};

TEST_F(StatusPublisherTest, SaysWhoItIsFromTheLaunchersWords) {
  topology::Identity identity;
  identity.job_id = "0123456789ab";
  identity.run_dir = scratch_.path();
  identity.instance = 2;
  identity.num_instances = 3;
  identity.num_replicas = 6;
  identity.local_replicas = {4, 2};
  identity.devices_per_replica = 2;
  identity.device_ids = {4, 5, 6, 7};
  identity.threads_per_device = 3;
  identity.restart_count = 1;
  const StatusPublisher publisher(identity, environment(), DeviceKind::Cuda);
  EXPECT_EQ(publisher.problem(), "");
  EXPECT_EQ(publisher.path(), scratch_.path() + "/status-2");
  const auto facts = read(publisher).facts;
  EXPECT_EQ(facts.job, "0123456789ab");
  EXPECT_EQ(facts.process, ::getpid());
  EXPECT_EQ(facts.num_instances, 3);
  EXPECT_EQ(facts.replicas.first, 4);
  EXPECT_EQ(facts.replicas.count, 2);
  EXPECT_EQ(facts.threads_per_device, 3);
  EXPECT_EQ(facts.restart_count, 1);
  EXPECT_EQ(facts.device_kind, DeviceKind::Cuda);
  EXPECT_EQ(facts.device_ids, std::vector({4, 5, 6, 7}));
  EXPECT_THAT(facts.command, HasSubstr("status_publisher_test"));
  EXPECT_FALSE(facts.host.empty());
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(facts.start_time, now.count(), 60);
}

TEST_F(StatusPublisherTest, AddsUpWhatStepsTell) {
  StatusPublisher publisher({}, environment(), DeviceKind::Cpu);
  publisher.enter(Phase::Training);
  for (int step = 1; step <= 3; ++step) {
    publisher.on({.epoch = 4,
                  .step = step,
                  .steps_of_epoch = 9,
                  .samples = 64,
                  .loss = 3.0 / step,
                  .accuracy = 10.0 * step,
                  .seconds = {.data = 0.5, .compute = 2, .reduce = 0.25, .idle = 1}});
  }
  publisher.note_device_memory(12345);
  const auto state = read(publisher).state;
  EXPECT_EQ(state.phase, Phase::Training);
  EXPECT_EQ(state.epoch, 4);
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.steps_of_epoch, 9);
  EXPECT_EQ(state.samples, 192);
  EXPECT_EQ(state.loss, 1.0);
  EXPECT_EQ(state.accuracy, 30.0);
  EXPECT_EQ(state.seconds, (PhaseSeconds{1.5, 6, 0.75, 3}));
  EXPECT_EQ(state.device_memory_bytes, 12345);
  EXPECT_GE(state.samples_per_second, 0);
  EXPECT_LE(state.updated_ns, std::chrono::steady_clock::now().time_since_epoch().count());
}

TEST_F(StatusPublisherTest, NamesTheCollectiveThatItIsInAndThenTheLast) {
  StatusPublisher publisher({}, environment(), DeviceKind::Cpu);
  publisher.enter_collective("all_reduce");
  EXPECT_TRUE(read(publisher).state.is_in_collective);
  publisher.leave_collective();
  publisher.enter_collective(std::string(500, 'x'));
  publisher.leave_collective();
  const auto state = read(publisher).state;
  EXPECT_FALSE(state.is_in_collective);
  EXPECT_EQ(state.collective, std::string(64, 'x'));
  EXPECT_EQ(state.collectives, 2);
}

TEST_F(StatusPublisherTest, GoesThroughEveryPhase) {
  StatusPublisher publisher({}, environment(), DeviceKind::Cpu);
  EXPECT_EQ(name_of(read(publisher).state.phase), "starting");
  for (const auto& [phase, name] :
       {std::pair(Phase::Preparing, "preparing"), std::pair(Phase::Training, "training"),
        std::pair(Phase::Evaluating, "evaluating"), std::pair(Phase::Saving, "saving"),
        std::pair(Phase::Finishing, "finishing")}) {
    publisher.enter(phase);
    publisher.enter(phase);
    EXPECT_EQ(name_of(read(publisher).state.phase), name);
  }
}

TEST_F(StatusPublisherTest, IsCalledByManyThreadsAtOnce) {
  StatusPublisher publisher({}, environment(), DeviceKind::Cpu);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        publisher.on({.samples = 1, .seconds = {.data = 1}});
        publisher.enter_collective("barrier");
        publisher.leave_collective();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto state = read(publisher).state;
  EXPECT_EQ(state.samples, 8000);
  EXPECT_EQ(state.seconds.data, 8000);
  EXPECT_EQ(state.collectives, 8000);
}

TEST_F(StatusPublisherTest, LosesItsPageToNoProcessThatWasForkedFromIt) {
  StatusPublisher publisher({}, environment(), DeviceKind::Cpu);
  const auto child = ::fork();
  if (child == 0) {
    publisher.~StatusPublisher();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  publisher.enter(Phase::Training);
  EXPECT_EQ(read(publisher).state.phase, Phase::Training);
}

TEST_F(StatusPublisherTest, SaysWhyNobodySeesItAndGoesOn) {
  topology::Identity identity;
  identity.run_dir = scratch_.path() + "/gone";
  StatusPublisher publisher(identity, environment(), DeviceKind::Cpu);
  EXPECT_THAT(publisher.problem(), HasSubstr("gone/status-0"));
  EXPECT_THAT(publisher.problem(), HasSubstr("No such file or directory"));
  EXPECT_EQ(publisher.path(), "");
  publisher.enter(Phase::Training);
  publisher.on({.samples = 5});
  publisher.enter_collective("barrier");
  publisher.leave_collective();
  publisher.note_device_memory(1);
}

/// A suite of its own, because it measures time and runs alone.
class UpdateCostTest : public StatusPublisherTest {};

TEST_F(UpdateCostTest, AnUpdateTakesLessThanAMicrosecond) {
  StatusPublisher publisher({}, environment(), DeviceKind::Cpu);
  constexpr int kUpdates = 20000;
  // The fastest of many rounds: the machine may be busy with something else now and then.
  auto fastest = std::chrono::duration<double, std::nano>(1e9);
  for (int round = 0; round < 20; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kUpdates; ++i) publisher.on({.step = i, .samples = 64, .loss = 0.5});
    const std::chrono::duration<double, std::nano> passed =
        std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, passed / kUpdates);
  }
  RecordProperty("nanoseconds_per_update", std::to_string(fastest.count()));
  std::printf("an update takes %.0f ns\n", fastest.count());
  if (!sanitizers().empty()) GTEST_SKIP() << "sanitizers take their time";
  EXPECT_LT(fastest.count(), 1000);
}

TEST(RateMeterTest, FollowsAChangeWithinSeconds) {
  RateMeter meter;
  auto now = RateMeter::TimePoint{} + 100s;
  meter.restart(now);
  for (int i = 0; i < 100; ++i) meter.add(10, now += 100ms);
  EXPECT_NEAR(meter.per_second(), 100, 1e-6);
  for (int i = 0; i < 60; ++i) meter.add(30, now += 100ms);
  EXPECT_NEAR(meter.per_second(), 300, 1e-6);
}

TEST(RateMeterTest, CountsStepsOfMinutesAndNoPauses) {
  RateMeter meter;
  auto now = RateMeter::TimePoint{} + 100s;
  meter.restart(now);
  meter.add(64, now + 1us);
  EXPECT_EQ(meter.per_second(), 0);
  meter.add(536, now += 60s);
  EXPECT_NEAR(meter.per_second(), 10, 1e-6);
  meter.restart(now += 600s);
  meter.add(600, now += 30s);
  EXPECT_NEAR(meter.per_second(), 20, 1e-6);
}

}  // namespace
}  // namespace lockstep::monitor
