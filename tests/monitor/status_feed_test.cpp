#include "lockstep/monitor/status/status_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "lockstep/base/file.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/monitor/status/status_publisher.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::json;

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
  Json job(StatusFeed& feed) const {
    const auto all = Json::parse(feed.snapshot()).at("jobs");
    EXPECT_EQ(all.size(), 1U) << all;
    return all.empty() ? Json() : all[0];
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
  EXPECT_EQ(found["id"], folder_->job_id());
  EXPECT_EQ(found["state"], "running");
  EXPECT_EQ(found["step"], 27);
  EXPECT_EQ(found["epoch"], 3);
  EXPECT_EQ(found["loss"], 1.5);
  EXPECT_EQ(found["accuracy"], 40);
  EXPECT_EQ(found["slowest"], 0);
  EXPECT_THAT(found["bottleneck"].get<std::string>(), ::testing::StartsWith("uneven: "));
  ASSERT_EQ(found["hosts"].size(), 1U);
  const auto& instances = found["hosts"][0]["instances"];
  ASSERT_EQ(instances.size(), 2U);
  EXPECT_EQ(instances[1]["index"], 1);
  EXPECT_EQ(instances[1]["alive"], true);
  EXPECT_EQ(instances[1]["phase"], "training");
  EXPECT_EQ(instances[1]["pid"], ::getpid());
  EXPECT_EQ(instances[1]["time"]["idle"], 0.5);
  EXPECT_EQ(instances[1]["replicas"],
            Json::parse(R"([{"index":2,"stages":[{"device":"cpu 0","index":0}]},
                            {"index":3,"stages":[{"device":"cpu 1","index":0}]}])"));
}

TEST_F(StatusFeedTest, ShowsJobsOfOthersOnlyWhereItIsToldTo) {
  if (::getuid() != 0) GTEST_SKIP() << "only root may look into folders of others";
  const StatusPublisher instance(identity(0), environment_, DeviceKind::Cpu);
  constexpr uid_t kAnother = 65534;
  ASSERT_EQ(::chown((folder_->path() + "/status-0").c_str(), kAnother, kAnother), 0);
  ASSERT_EQ(::chown(folder_->path().c_str(), kAnother, kAnother), 0);
  StatusFeed of_all(environment_, {.job = folder_->job_id(), .shows_others = true});
  EXPECT_EQ(job(of_all)["id"], folder_->job_id());
  StatusFeed own(environment_, {.job = folder_->job_id()});
  EXPECT_EQ(own.snapshot(), R"({"jobs":[]})");
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
  EXPECT_EQ(found["state"], "running");
  EXPECT_EQ(found["hosts"], Json::array());
  EXPECT_FALSE(found.contains("bottleneck"));
  EXPECT_EQ(feed.events(folder_->job_id(), 10), "[]");
}

TEST_F(StatusFeedTest, TellsTheNewestEventsWhereverTheyAreLogged) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  feed.snapshot();
  write_file(
      folder_->path() + "/events.jsonl",
      "{\"event\":\"start\"}\n{\"event\":\"death\"}\nno json\n[1]\n{\"event\":\"end\"}\n{\"ev");
  EXPECT_EQ(feed.events(folder_->job_id(), 2), R"([{"event":"death"},{"event":"end"}])");
  write_file(scratch_.path() + "/elsewhere.jsonl", "{\"event\":\"stall\"}\n");
  leave_path_of_events(folder_->path(), scratch_.path() + "/elsewhere.jsonl");
  EXPECT_EQ(feed.events(folder_->job_id(), 2), R"([{"event":"stall"}])");
  EXPECT_EQ(feed.events("another", 2), "[]");
}

TEST_F(StatusFeedTest, FollowsNoLinkAndWaitsForNoPipe) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  feed.snapshot();
  write_file(scratch_.path() + "/target", "{\"event\":\"secret\"}\n");
  std::filesystem::create_symlink(scratch_.path() + "/target", folder_->path() + "/events.jsonl");
  EXPECT_EQ(feed.events(folder_->job_id(), 5), "[]");
  std::filesystem::remove(folder_->path() + "/events.jsonl");
  ASSERT_EQ(::mkfifo((folder_->path() + "/events.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(feed.events(folder_->job_id(), 5), "[]");
}

TEST_F(StatusFeedTest, ReadsTheEndOfALongLog) {
  StatusFeed feed(environment_, {.job = folder_->job_id()});
  feed.snapshot();
  std::string log;
  for (int i = 0; i < 20000; ++i)
    log += "{\"event\":\"checkpoint\",\"step\":" + std::to_string(i) + "}\n";
  write_file(folder_->path() + "/events.jsonl", log);
  EXPECT_EQ(Json::parse(feed.events(folder_->job_id(), 100)).size(), 100U);
  EXPECT_EQ(Json::parse(feed.events(folder_->job_id(), 1))[0]["step"], 19999);
}

}  // namespace
}  // namespace lockstep::monitor
