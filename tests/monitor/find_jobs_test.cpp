#include "lockstep/monitor/status/find_jobs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "lockstep/base/process_facts.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/monitor/status/status_page.h"
#include "lockstep/monitor/status/status_publisher.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::monitor {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::Subprocess;

class FindJobsTest : public ::testing::Test {
 protected:
  topology::Environment environment() const {
    return topology::Environment({{"TMPDIR", scratch_.path()}});
  }
  std::string parent() const { return scratch_.path() + "/lockstep-" + std::to_string(::getuid()); }
  std::vector<FoundJob> find() const { return find_jobs_in({parent()}); }

  /// A worker that is alone, as `lockstep train` is without the launcher.
  std::unique_ptr<Subprocess> start_alone(const std::string& how) const {
    return std::make_unique<Subprocess>(
        std::vector<std::string>{STATUS_WORKER_BINARY, how},
        testing::SubprocessOptions{
            .environment = {{"TMPDIR", scratch_.path()}, {"XDG_RUNTIME_DIR", ""}}});
  }

  /// One of those that torchrun would have started.
  std::unique_ptr<Subprocess> start_rank(int rank) const {
    return std::make_unique<Subprocess>(
        std::vector<std::string>{STATUS_WORKER_BINARY, "wait"},
        testing::SubprocessOptions{.environment = {{"TMPDIR", scratch_.path()},
                                                   {"XDG_RUNTIME_DIR", ""},
                                                   {"RANK", std::to_string(rank)},
                                                   {"WORLD_SIZE", "2"},
                                                   {"LOCAL_RANK", std::to_string(rank)},
                                                   {"LOCAL_WORLD_SIZE", "2"},
                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                   {"MASTER_PORT", "29501"}}});
  }

  /// Facts of this process, which is alive.
  InstanceFacts living(int instance) const {
    return {.job = "a",
            .process = ::getpid(),
            .start_ticks = process_counters(::getpid())->start_ticks,
            .instance = instance,
            .num_instances = 4,
            .num_replicas = 4};
  }

  testing::ScratchFolder scratch_;
};

TEST_F(FindJobsTest, ThereAreNoneWhereNothingRuns) {
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(find_jobs_in({}).empty());
}

TEST_F(FindJobsTest, AProcessThatNoLauncherStartedIsAJobOfItsOwn) {
  const auto worker = start_alone("wait");
  ASSERT_TRUE(worker->wait_for("ready"));
  const auto jobs = find();
  ASSERT_EQ(jobs.size(), 1U);
  ASSERT_EQ(jobs[0].instances.size(), 1U);
  const auto& found = jobs[0].instances[0];
  EXPECT_EQ(worker->out(), "ready " + jobs[0].id + "\n");
  EXPECT_EQ(found.health, Health::Running);
  EXPECT_EQ(found.facts.process, worker->pid());
  EXPECT_EQ(found.facts.user, user_name(::getuid()));
  EXPECT_EQ(found.facts.command, std::string(STATUS_WORKER_BINARY) + " wait");
  EXPECT_EQ(found.facts.num_instances, 1);
  EXPECT_EQ(found.state.phase, Phase::Training);
  EXPECT_EQ(found.state.step, 120);
  EXPECT_EQ(found.state.collective, "all_reduce");
  EXPECT_TRUE(found.state.is_in_collective);
}

TEST_F(FindJobsTest, AProcessThatEndsAsItShouldLeavesNothing) {
  EXPECT_EQ(start_alone("end")->wait().exit_code, 0);
  EXPECT_TRUE(scratch_.is_empty());
}

TEST_F(FindJobsTest, WhatAKilledProcessLeftIsRemoved) {
  const auto worker = start_alone("wait");
  ASSERT_TRUE(worker->wait_for("ready"));
  worker->signal(SIGKILL);
  worker->wait();
  EXPECT_FALSE(fs::is_empty(parent()));
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(fs::is_empty(parent()));
}

TEST_F(FindJobsTest, OneThatIsStoppedIsSaidToBe) {
  const auto worker = start_alone("wait");
  ASSERT_TRUE(worker->wait_for("ready"));
  worker->signal(SIGSTOP);
  EXPECT_TRUE(
      testing::eventually([&] { return find().at(0).instances.at(0).health == Health::Stopped; },
                          std::chrono::seconds(20)));
}

TEST_F(FindJobsTest, RanksOfAnotherLauncherAreOneJob) {
  const auto first = start_rank(0);
  const auto second = start_rank(1);
  ASSERT_TRUE(first->wait_for("ready"));
  ASSERT_TRUE(second->wait_for("ready"));
  const auto jobs = find();
  ASSERT_EQ(jobs.size(), 1U);
  ASSERT_EQ(jobs[0].instances.size(), 2U);
  EXPECT_EQ(jobs[0].instances[0].facts.process, first->pid());
  EXPECT_EQ(jobs[0].instances[1].facts.process, second->pid());
  EXPECT_EQ(jobs[0].instances[1].facts.instance, 1);
}

TEST_F(FindJobsTest, AKilledInstanceIsListedWhileItsJobGoesOn) {
  launch::RunDirectory folder(environment());
  folder.create();
  Subprocess worker({STATUS_WORKER_BINARY, "hurry"},
                    {.environment = {{"LOCKSTEP_JOB_ID", folder.job_id()},
                                     {"LOCKSTEP_RUN_DIR", folder.path()},
                                     {"LOCKSTEP_INSTANCE_INDEX", "1"},
                                     {"LOCKSTEP_NUM_INSTANCES", "2"},
                                     {"LOCKSTEP_LOCAL_INSTANCE_INDEX", "1"},
                                     {"LOCKSTEP_NUM_LOCAL_INSTANCES", "2"},
                                     {"LOCKSTEP_NUM_REPLICAS", "2"},
                                     {"LOCKSTEP_NUM_LOCAL_REPLICAS", "1"},
                                     {"LOCKSTEP_REPLICA_OFFSET", "1"},
                                     {"LOCKSTEP_DEVICES_PER_REPLICA", "1"},
                                     {"LOCKSTEP_DEVICE_IDS", "1"},
                                     {"LOCKSTEP_THREADS_PER_DEVICE", "1"},
                                     {"LOCKSTEP_RESTART_COUNT", "0"},
                                     {"LOCKSTEP_STALL_TIMEOUT", "60"},
                                     {"LOCKSTEP_TRANSPORT", "auto"}}});
  ASSERT_TRUE(worker.wait_for("ready"));
  worker.signal(SIGKILL);
  worker.wait();
  const auto jobs = find();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, folder.job_id());
  ASSERT_EQ(jobs[0].instances.size(), 1U);
  const auto& found = jobs[0].instances[0];
  EXPECT_EQ(found.health, Health::Ended);
  // Killed in the middle of an update, as a rule: the one before it is whole.
  EXPECT_EQ(found.state.step, found.state.epoch + 1);
  EXPECT_EQ(found.state.loss, static_cast<double>(found.state.epoch) - 0.5);
  EXPECT_EQ(found.state.seconds.compute, 2 * found.state.seconds.data);
  folder.remove();
}

TEST_F(FindJobsTest, AProcessThatOnlyHasTheNumberOfAnInstanceIsNotIt) {
  launch::RunDirectory folder(environment());
  folder.create();
  auto facts = living(0);
  const StatusPage same(folder.path(), facts);
  facts = living(1);
  facts.start_ticks -= 1;
  const StatusPage other(folder.path(), facts);
  const auto instances = find().at(0).instances;
  EXPECT_EQ(instances.at(0).health, Health::Running);
  EXPECT_EQ(instances.at(1).health, Health::Ended);
  folder.remove();
}

TEST_F(FindJobsTest, WhatIsLeftOfEarlierAttemptsIsNotListed) {
  launch::RunDirectory folder(environment());
  folder.create();
  auto facts = living(0);
  facts.restart_count = 1;
  const StatusPage now(folder.path(), facts);
  facts = living(3);
  facts.start_ticks = 1;
  const StatusPage before(folder.path(), facts);
  EXPECT_EQ(find().at(0).instances.size(), 1U);
  folder.remove();
}

TEST_F(FindJobsTest, AJobThatSaysNothingIsListedByItsName) {
  launch::RunDirectory folder(environment());
  folder.create();
  const auto jobs = find();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, folder.job_id());
  EXPECT_TRUE(jobs[0].instances.empty());
  folder.remove();
}

TEST_F(FindJobsTest, DamagedPagesAreEntriesThatSaySo) {
  const std::string kNotTheirs = "not a file of the job's own that can be read";
  launch::RunDirectory folder(environment());
  folder.create();
  const auto page = [&](int instance) { return folder.path() + "/" + page_name(instance); };
  testing::ScratchFolder elsewhere;
  const auto secret = elsewhere.write("secret", std::string(8192, 'x'));
  fs::create_symlink(secret, page(0));
  ASSERT_EQ(::mkfifo(page(1).c_str(), 0600), 0);  // whose reader would wait for ever
  fs::create_directory(page(2));
  { std::ofstream(page(3)) << "short"; }
  { std::ofstream(page(4)) << std::string(8192, 'x'); }
  {
    const StatusPage misplaced(folder.path(), living(0));
    fs::copy_file(misplaced.path(), page(5));
  }
  { std::ofstream(folder.path() + "/status-99999999999999999999") << "no instance"; }
  { std::ofstream(folder.path() + "/status-1x") << "no instance"; }
  fs::remove(page(0));
  fs::create_symlink(secret, page(0));
  const auto instances = find().at(0).instances;
  ASSERT_EQ(instances.size(), 6U);
  for (const auto& found : instances) EXPECT_EQ(found.health, Health::Damaged);
  EXPECT_EQ(instances[0].problem, kNotTheirs);
  EXPECT_EQ(instances[1].problem, kNotTheirs);
  EXPECT_EQ(instances[2].problem, kNotTheirs);
  EXPECT_EQ(instances[3].problem, "cut short: 5 of 4096 bytes");
  EXPECT_EQ(instances[4].problem, "damaged: not a status page");
  EXPECT_EQ(instances[5].problem, "damaged: of another instance");
  EXPECT_EQ(instances[5].facts.instance, 5);
  folder.remove();
}

TEST_F(FindJobsTest, NothingIsRemovedWhereOthersMayHavePutIt) {
  // A link that somebody else made in /tmp, to where we keep what is dear to us.
  const testing::ScratchFolder home;
  const std::string letters = "/0123456789ab";
  fs::create_directory(home.path() + letters);
  fs::create_symlink(home.path(), parent());
  find();
  EXPECT_TRUE(fs::exists(home.path() + letters));
  fs::remove(parent());
  fs::create_directory(parent());
  fs::permissions(parent(), fs::perms::all);
  fs::create_directory(parent() + letters);
  find();
  EXPECT_TRUE(fs::exists(parent() + letters));
}

TEST_F(FindJobsTest, NothingIsRemovedThatIsNoJobNorAmongOthersJobs) {
  fs::create_directory(parent());
  fs::permissions(parent(), fs::perms::owner_all);
  fs::create_directory(parent() + "/letters");
  find();
  EXPECT_TRUE(fs::exists(parent() + "/letters"));
  fs::create_directory(parent() + "/0123456789ab");
  find_jobs_in({}, {parent()});
  EXPECT_TRUE(fs::exists(parent() + "/0123456789ab"));
  find();
  EXPECT_FALSE(fs::exists(parent() + "/0123456789ab"));
}

TEST_F(FindJobsTest, AnotherUsersJobIsShownToWhoMayReadItAndToNobodyElse) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  constexpr unsigned kNobody = 65534;
  const auto job = scratch_.path() + "/lockstep-65534/0123456789ab";
  fs::create_directories(job);
  const StatusPage page(job, living(0));
  for (const auto& path : {fs::path(job).parent_path().string(), job, page.path()}) {
    ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  }
  const auto jobs = find_jobs_in({}, {fs::path(job).parent_path()});
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].user, user_name(kNobody));
  EXPECT_EQ(jobs[0].instances.at(0).facts.user, user_name(kNobody));
  EXPECT_TRUE(fs::exists(job));

  ASSERT_EQ(::chmod(scratch_.path().c_str(), 0755), 0);
  ASSERT_EQ(::seteuid(12345), 0);
  const auto seen = find_jobs_in({}, {fs::path(job).parent_path()});
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(seen.empty());
}

TEST_F(FindJobsTest, AFolderThatIsNamedTwiceIsLookedAtOnce) {
  launch::RunDirectory folder(environment());
  folder.create();
  const StatusPage page(folder.path(), living(0));
  const auto jobs = find_jobs_in(
      {parent(), parent() + "/", scratch_.path() + "/./" + fs::path(parent()).filename().string()});
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].instances.size(), 1U);
  folder.remove();
}

}  // namespace
}  // namespace lockstep::monitor
