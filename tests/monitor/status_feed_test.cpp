#include "lockstep/monitor/status/status_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/monitor/status/status_publisher.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::monitor {
namespace {

using events::LogEntry;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names_of(const std::vector<LogEntry>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.event);
  return names;
}

/// A job of two instances, both of which are this process.
class StatusFeedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.emplace(environment_);
    folder_->create();
  }
  void TearDown() override { folder_->remove(); }

  topology::Identity identity(int instance) const {
    topology::Identity identity;
    identity.launched_by = topology::LaunchedBy::Lockstep;
    identity.job_id = folder_->job_id();
    identity.run_dir = folder_->path();
    identity.instance = instance;
    identity.num_instances = 2;
    identity.num_replicas = 4;
    identity.local_replicas = {2 * instance, 2};
    identity.devices_per_replica = 1;
    identity.device_ids = {0, 1};
    return identity;
  }
  DashboardJob job(StatusFeed& feed) const {
    const auto all = feed.jobs();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? DashboardJob() : all[0];
  }
  std::vector<std::string> event_names(StatusFeed& feed) const {
    return names_of(job(feed).events);
  }

  testing::ScratchFolder scratch_;
  topology::Environment environment_ = topology::Environment({{"TMPDIR", scratch_.path()}});
  std::optional<launch::RunDirectory> folder_;
};

TEST_F(StatusFeedTest, TellsOfInstancesWhatTheyPublish) {
  StatusPublisher first(identity(0), environment_, DeviceKind::Cpu);
  StatusPublisher second(identity(1), environment_, DeviceKind::Cpu);
  for (auto* instance : {&first, &second}) {
    instance->enter(Phase::Training);
    const bool is_first = instance == &first;
    instance->on(
        {.epoch = 3,
         .step = 7,
         .steps_of_epoch = 10,
         .samples = 64,
         .loss = 1.5,
         .accuracy = 40,
         .seconds = {.data = 1, .compute = is_first ? 8.0 : 4.0, .idle = is_first ? 1 : 5.0}});
  }
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  const auto found = job(feed);
  EXPECT_EQ(found.id, folder_->job_id());
  EXPECT_FALSE(found.end);
  EXPECT_EQ(found.step, 27);
  EXPECT_EQ(found.epoch, 3);
  EXPECT_EQ(found.loss, 1.5);
  EXPECT_EQ(found.accuracy, 40);
  EXPECT_EQ(found.slowest, 0);
  EXPECT_THAT(found.bottleneck, ::testing::StartsWith("uneven: "));
  ASSERT_EQ(found.instances.size(), 2U);
  const auto& shown = found.instances[1];
  EXPECT_EQ(shown.host, found.instances[0].host);
  EXPECT_EQ(shown.index, 1);
  EXPECT_TRUE(shown.is_alive);
  EXPECT_EQ(shown.phase, "training");
  EXPECT_EQ(shown.process, ::getpid());
  EXPECT_EQ(shown.time.value().idle, 0.5);
  ASSERT_EQ(shown.replicas.size(), 2U);
  EXPECT_EQ(shown.replicas[0].index, 2);
  EXPECT_THAT(shown.replicas[0].stage_devices, ElementsAre("cpu 0"));
  EXPECT_EQ(shown.replicas[1].index, 3);
  EXPECT_THAT(shown.replicas[1].stage_devices, ElementsAre("cpu 1"));
}

TEST_F(StatusFeedTest, ShowsJobsOfOthersOnlyWhereItIsToldTo) {
  if (::getuid() != 0) GTEST_SKIP() << "only root may look into folders of others";
  const StatusPublisher instance(identity(0), environment_, DeviceKind::Cpu);
  constexpr uid_t kAnother = 65534;
  ASSERT_EQ(::chown((folder_->path() + "/status-0").c_str(), kAnother, kAnother), 0);
  ASSERT_EQ(::chown(folder_->path().c_str(), kAnother, kAnother), 0);
  StatusFeed of_all(environment_, {.job = folder_->job_id(), .shows_others = true});
  EXPECT_EQ(job(of_all).id, folder_->job_id());
  StatusFeed own(environment_, {.job = folder_->job_id()});
  EXPECT_THAT(own.jobs(), IsEmpty());
  ASSERT_EQ(::chown(folder_->path().c_str(), 0, 0), 0);
}

/// A long-lived dashboard sees many processes.
TEST_F(StatusFeedTest, RemembersNoProcessThatIsNotThereAnyMore) {
  JobSampler sampler(environment_);
  {
    const StatusPublisher instance(identity(0), environment_, DeviceKind::Cpu);
    sampler.sample();
    EXPECT_TRUE(sampler.knows(::getpid()));
  }
  sampler.sample();
  EXPECT_FALSE(sampler.knows(::getpid()));
}

TEST_F(StatusFeedTest, TellsOfAJobThatSaysNothingYet) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  const auto found = job(feed);
  EXPECT_FALSE(found.end);
  EXPECT_THAT(found.instances, IsEmpty());
  EXPECT_EQ(found.bottleneck, "");
  EXPECT_THAT(found.events, IsEmpty());
}

TEST_F(StatusFeedTest, TellsTheNewestEventsWhereverTheyAreLogged) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  write_file(
      folder_->path() + "/events.jsonl",
      "{\"event\":\"start\"}\n{\"event\":\"death\"}\nno json\n[1]\n{\"event\":\"end\"}\n{\"ev");
  EXPECT_THAT(event_names(feed), ElementsAre("start", "death", "end"));
  write_file(scratch_.path() + "/elsewhere.jsonl", "{\"event\":\"stall\"}\n");
  leave_path_of_events(folder_->path(), scratch_.path() + "/elsewhere.jsonl");
  EXPECT_THAT(event_names(feed), ElementsAre("stall"));
}

TEST_F(StatusFeedTest, FollowsNoLinkAndWaitsForNoPipe) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  write_file(scratch_.path() + "/target", "{\"event\":\"secret\"}\n");
  std::filesystem::create_symlink(scratch_.path() + "/target", folder_->path() + "/events.jsonl");
  EXPECT_THAT(event_names(feed), IsEmpty());
  std::filesystem::remove(folder_->path() + "/events.jsonl");
  ASSERT_EQ(::mkfifo((folder_->path() + "/events.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(event_names(feed), IsEmpty());
}

TEST_F(StatusFeedTest, ReadsTheEndOfALongLog) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  std::string log;
  for (int i = 0; i < 20000; ++i)
    log += "{\"event\":\"checkpoint\",\"step\":" + std::to_string(i) + "}\n";
  write_file(folder_->path() + "/events.jsonl", log);
  const auto entries = job(feed).events;
  ASSERT_EQ(entries.size(), StatusFeed::kMostEvents);
  EXPECT_EQ(entries.back().step, 19999);
}

TEST_F(StatusFeedTest, KeepsAJobThatHasEndedAndReadsHowItEnded) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  const auto log = folder_->path() + "/events.jsonl";
  {
    StatusPublisher instance(identity(0), environment_, DeviceKind::Cpu);
    instance.enter(Phase::Training);
    instance.on({.epoch = 1, .step = 7, .steps_of_epoch = 10, .samples = 64, .loss = 1.5});
    write_file(log, "{\"event\":\"start\",\"instance\":0}\n");
    EXPECT_FALSE(job(feed).end);
  }
  // The launcher writes the end of the job and removes the folder before the next look.
  events::EventLog(log).write(
      {.event = "end", .more = {{"exit_code", std::int64_t{0}}, {"seconds", 12.34}}});
  folder_->remove();
  for (int look = 0; look < 2; ++look) {
    const auto found = job(feed);
    ASSERT_TRUE(found.end);
    EXPECT_EQ(found.end->exit_code, 0);
    EXPECT_EQ(found.end->text, "succeeded after 12.3 s (exit code 0)");
    EXPECT_EQ(found.step, 7);
    ASSERT_EQ(found.instances.size(), 1U);
    EXPECT_FALSE(found.instances[0].is_alive);
    EXPECT_EQ(found.instances[0].replicas.size(), 2U);
    EXPECT_THAT(names_of(found.events), ElementsAre("start", "end"));
  }
}

LogEntry end_entry(std::int64_t exit_code, double seconds) {
  return {.event = "end", .more = {{"exit_code", exit_code}, {"seconds", seconds}}};
}

TEST(DescribeEndTest, NamesTheExitCodeTheTimeAndTheCause) {
  const LogEntry killed{
      .event = "failure", .instance = 1, .step = 20, .more = {{"signal", "SIGKILL"}}};
  const LogEntry restart{.event = "restart", .instance = 1};
  const LogEntry interrupted{.event = "interrupted", .more = {{"signal", "SIGINT"}}};
  const auto text = [](const std::vector<LogEntry>& entries) { return describe_end(entries).text; };
  EXPECT_EQ(text({killed, restart, end_entry(0, 3)}), "succeeded after 3.0 s (exit code 0)");
  EXPECT_EQ(text({killed, end_entry(137, 300)}),
            "failed after 5 min (exit code 137): instance 1: killed by SIGKILL after step 20");
  EXPECT_EQ(text({interrupted, end_entry(130, 9000)}),
            "interrupted by SIGINT after 2.5 h (exit code 130)");
  EXPECT_EQ(text({interrupted, end_entry(75, 3)}),
            "stopped with a checkpoint after 3.0 s (exit code 75)");
  EXPECT_EQ(text({end_entry(2, 0.04)}), "failed after 0.0 s (exit code 2)");
}

TEST(DescribeEndTest, SaysThatItDoesNotKnowWithoutAnEndInTheLog) {
  const auto end = describe_end({});
  EXPECT_FALSE(end.exit_code);
  EXPECT_EQ(end.text, "the exit code is unknown, because the event log is incomplete");
}

}  // namespace
}  // namespace lockstep::monitor
