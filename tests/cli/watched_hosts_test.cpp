// Watching a job over several hosts from where it was started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include <memory>

#include "lockstep/monitor/web/dashboard_server.h"
#include "tests/monitor/dashboard_client.h"
#include "tests/support/fake_hosts.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

/// Two hosts whose folders the launcher's machine does not see, and a job on both.
class WatchedHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    hosts_.give_own_folder("x1");
    hosts_.give_own_folder("x2");
    own_ = hosts_.options();
    own_.environment["TMPDIR"] = hosts_.folder().path();
    own_.environment["XDG_RUNTIME_DIR"] = "";
  }
  void start(std::vector<std::string> options) {
    options.insert(options.begin(), {"--num-instances", "2", "--num-replicas", "4"});
    job_ = std::make_unique<Subprocess>(
        lockstep_command(FakeHosts::run_command("x1,x2", options, {STATUS_WORKER_BINARY, "wait"})),
        own_);
    ASSERT_TRUE(job_->wait_for("[0] ready "));
    ASSERT_TRUE(job_->wait_for("[1] ready "));
    id_ = job_->out().substr(job_->out().find("ready ") + 6, 12);
  }
  void TearDown() override {
    if (!job_) return;
    job_->signal(SIGTERM);
    job_->wait();
    EXPECT_TRUE(hosts_.wait_until_gone(20s));
  }
  nlohmann::json monitored() const {
    const auto result = lockstep({"monitor", "--json", "--job", id_}, own_);
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }
  bool are_shown() const {
    const auto json = monitored();
    // The list is empty when the job has ended.
    return json.contains("jobs") && !json["jobs"].empty() &&
           json["jobs"][0]["instances"].size() == 2;
  }

  FakeHosts hosts_;
  SubprocessOptions own_;
  std::unique_ptr<Subprocess> job_;
  std::string id_;
};

TEST_F(WatchedHostsTest, AreInTheTablesOfTheLaunchersMachine) {
  start({});
  ASSERT_TRUE(eventually([&] { return are_shown(); }, 20s));
  const auto json = monitored();
  const auto& instances = json["jobs"][0]["instances"];
  EXPECT_EQ(instances[0]["host"], "x1");
  EXPECT_EQ(instances[1]["host"], "x2");
  EXPECT_EQ(instances[1]["first_replica"], 2);
  EXPECT_EQ(instances[1]["loss"], 1.25);
  EXPECT_GT(instances[1]["memory_bytes"], 0);
  EXPECT_THAT(json["devices"].dump(), HasSubstr("\"x2\""));
  const auto table = lockstep({"monitor", "--job", id_}, own_).out;
  EXPECT_THAT(table, HasSubstr("host"));
  EXPECT_THAT(table, HasSubstr("x2"));
}

TEST_F(WatchedHostsTest, AreOnTheJobsDashboardWithItsEvents) {
  if (!monitor::dashboard_is_built()) GTEST_SKIP() << "this build has no web server";
  start({"--dashboard", "0"});
  const auto port = port_of(url_of(*job_));
  const auto both_shown = [&] {
    const auto jobs = jobs_at(port);
    return jobs.size() == 1 && jobs[0]["instances"].size() == 2;
  };
  ASSERT_TRUE(eventually(both_shown, 20s)) << jobs_at(port);
  const auto job = jobs_at(port)[0];
  EXPECT_EQ(job["instances"][0]["host"], "x1");
  EXPECT_EQ(job["instances"][1]["host"], "x2");
  EXPECT_EQ(job["instances"][1]["replicas"].size(), 2U);
  EXPECT_THAT(job["events"].dump(), HasSubstr("start"));
}

TEST_F(WatchedHostsTest, DisappearWhenTheyAreLost) {
  start({"--grace-period", "8"});
  ASSERT_TRUE(eventually([&] { return are_shown(); }, 20s));
  for (const auto agent : hosts_.agents("x2")) ::kill(agent, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !are_shown(); }, 20s));
}

}  // namespace
}  // namespace lockstep::testing
