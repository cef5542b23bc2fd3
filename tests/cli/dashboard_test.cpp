// The dashboard of real trainings.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <thread>

#include "lockstep/base/process_facts.h"
#include "lockstep/base/strings.h"
#include "lockstep/monitor/export/span_recorder.h"
#include "lockstep/monitor/status/status_publisher.h"
#include "lockstep/monitor/web/dashboard_server.h"
#include "tests/cli/train_runs.h"
#include "tests/monitor/dashboard_client.h"
#include "tests/monitor/malformed_requests.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTraining =
    "--dataset synthetic --size 512 --image-size 16x16x3 --limit-test 16 --batch-size 8 --model "
    "mlp "
    "--eval-every 0 --replicas 4 --num-instances 2 ";

class DashboardTest : public TrainRunsTest {
 protected:
  void SetUp() override {
    if (!monitor::dashboard_is_built()) GTEST_SKIP() << "this build has no web server";
  }
  SubprocessOptions here() const {
    return {.environment = {{"TMPDIR", folder_.path()}, {"XDG_RUNTIME_DIR", ""}}};
  }
  std::unique_ptr<Subprocess> start(const std::string& options) const {
    return std::make_unique<Subprocess>(lockstep_command(words(options)), here());
  }
};

bool is_training(int port) {
  const auto jobs = jobs_at(port);
  return jobs.size() == 1 && jobs[0].value("step", 0) > 0;
}

bool can_connect(int port) {
  try {
    const RawConnection connection(port);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST_F(DashboardTest, ShowsAJobThatTheLauncherStartedWithItAndEndsWithIt) {
  auto job = start(std::string("train --epochs 100000 --dashboard 0 ") + kTraining);
  const auto port = port_of(url_of(*job));
  ASSERT_TRUE(eventually([&] { return is_training(port); }, 60s));
  const auto shown = jobs_at(port)[0];
  EXPECT_EQ(shown["state"], "running");
  EXPECT_EQ(shown["hosts"][0]["instances"].size(), 2U);
  EXPECT_THAT(shown["events"].dump(), HasSubstr("start"));
  EXPECT_THAT(shown["bottleneck"].get<std::string>(), HasSubstr(" % of the time"));
  job->signal(SIGTERM);
  job->wait();
  EXPECT_TRUE(eventually([&] { return !can_connect(port); }, 20s));
}

TEST_F(DashboardTest, StaysOutOfTheWayOfWhoeverHasThePort) {
  auto first = start("dashboard --port 0");
  const auto port = std::to_string(port_of(url_of(*first)));
  const auto second = lockstep({"run", "--dashboard", port, "true"}, here());
  EXPECT_NE(second.exit_code, 0);
  EXPECT_THAT(second.err, HasSubstr("run: --dashboard: expected it to serve at port " + port));
  first->signal(SIGINT);
  EXPECT_EQ(first->wait().exit_code, 0);
}

TEST_F(DashboardTest, TakesNoProgramForAPort) {
  const auto bare = lockstep({"run", "--dashboard=0", "echo", "--dashboard", "ours"}, here());
  EXPECT_EQ(bare.exit_code, 0) << bare.err;
  EXPECT_EQ(bare.out, "--dashboard ours\n");
  const auto wrong = lockstep({"run", "--dashboard=70000", "true"}, here());
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("run: --dashboard: expected a port from 0 to 65535, found "
                                   "'70000'"));
}

TEST_F(DashboardTest, NeedsATokenBeyondLoopback) {
  auto dashboard = start("dashboard --port 0 --address 0.0.0.0");
  const auto url = [&] {
    EXPECT_TRUE(dashboard->wait_for("\n", 60s));
    return dashboard->out();
  }();
  EXPECT_THAT(url, HasSubstr("token="));
  const auto port = std::stoi(url.substr(url.find("0.0.0.0:") + 8));
  EXPECT_EQ(status_of(ask(port, "GET /api/jobs")), 401);
}

TEST_F(DashboardTest, Requests10000MalformedOrSlowChangeNeitherDigestNorEnd) {
  const std::string training = std::string(kTraining) + "--epochs 600 ";
  const auto undisturbed = lockstep(words("train " + training), here());
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  auto job = start("train --dashboard 0 " + training);
  const auto port = port_of(url_of(*job));
  ASSERT_TRUE(eventually([&] { return is_training(port); }, 60s));
  std::mt19937 random(1);
  std::deque<std::unique_ptr<RawConnection>> held;  // more than the server has room for
  int sent = 0;
  for (; sent < 10'000 && (sent % 100 > 0 || can_connect(port)); ++sent) {
    held.push_back(std::make_unique<RawConnection>(port));
    held.back()->send(malformed(static_cast<std::size_t>(sent), random));
    if (held.size() > 300) held.pop_front();
    held[random() % held.size()]->send("x");
  }
  EXPECT_EQ(sent, 10'000) << "the training was over before";
  const auto end = job->wait(300s);
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(printed_digest(end), printed_digest(undisturbed));
}

/// The dashboard among the processes that the launcher has started itself.
int dashboard_of(const Subprocess& job) {
  const auto process = std::to_string(job.pid());
  const auto children = read_file("/proc/" + process + "/task/" + process + "/children");
  for (const auto& child : words(children)) {
    if (read_file("/proc/" + child + "/comm").starts_with("lockstep-dashbo")) {
      return std::stoi(child);
    }
  }
  ADD_FAILURE() << "no dashboard among " << children;
  return 0;
}

/// Seconds that telling a status page takes, and recording a span.
struct UnitCosts {
  double update = 0;
  double span = 0;
};

UnitCosts measure_costs(const std::string& folder) {
  constexpr int kTimes = 200'000;
  const auto seconds_each = [&](const auto& action) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) action(i);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kTimes;
  };
  const topology::Environment environment({{"TMPDIR", folder}});
  monitor::StatusPublisher status({}, environment, monitor::DeviceKind::Cpu);
  monitor::SpanRecorder recorder(folder + "/spans", {});
  auto& track = recorder.track("device 0");
  return {.update = seconds_each([&](int step) { status.on({.step = step}); }),
          .span = seconds_each([&](int step) {
            const events::TimedScope scope(&track, events::SpanKind::Forward, step);
          })};
}

std::int64_t updates_of(const nlohmann::json& job) {
  std::int64_t updates = 0;
  for (const auto& instance : job.at("instances")) {
    updates += 2 * instance.at("collectives").get<std::int64_t>();
    updates += (instance.at("epoch").get<std::int64_t>() - 1) *
                   instance.at("steps_of_epoch").get<std::int64_t>() +
               instance.at("step").get<std::int64_t>();
  }
  return updates;
}

/// What those who look on take, of what the job takes: a page that is open in a browser, status
/// pages, a trace. A real network computes for longer between two updates than this one does.
TEST_F(DashboardTest, CostsAtMostOnePercentOfTheJobsCpuSeconds) {
  auto job = start("train --epochs 100000 --dashboard 0 --model convnet --trace " + path("t.json") +
                   " --tensorboard " + path("curves") +
                   " --dataset synthetic --size 512 "
                   "--image-size 32x32x3 --limit-test 16 --batch-size 16 --eval-every 0 "
                   "--replicas 2 --num-instances 2");
  const auto port = port_of(url_of(*job));
  ASSERT_TRUE(eventually([&] { return is_training(port); }, 60s));
  RawConnection page(port);
  page.send("GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto look = [&] {
    struct {
      double dashboard = 0;
      double instances = 0;
      std::int64_t updates = 0;
    } seen;
    const auto seconds = [](int process) {
      return static_cast<double>(process_counters(process).value().cpu_ticks) / ticks_per_second();
    };
    seen.dashboard = seconds(dashboard_of(*job));
    const auto found = nlohmann::json::parse(lockstep({"monitor", "--json"}, here()).out);
    for (const auto& instance : found["jobs"][0]["instances"]) {
      seen.instances += seconds(instance["pid"]);
    }
    seen.updates = updates_of(found["jobs"][0]);
    return seen;
  };
  const auto before = look();
  page.read_until("never", 20s);
  const auto after = look();
  const auto cost = measure_costs(folder_.path());
  const auto updates = static_cast<double>(after.updates - before.updates);
  const auto job_seconds = after.instances - before.instances;
  const auto dashboard = (after.dashboard - before.dashboard) / job_seconds;
  const auto pages = updates * cost.update / job_seconds;
  // There are about as many spans as updates.
  const auto spans = updates * cost.span / job_seconds;
  std::printf(
      "of %.1f CPU seconds: dashboard %.3f %%, status pages %.3f %% (%.0f updates of %.0f ns), "
      "trace %.3f %% (%.0f ns a span)\n",
      job_seconds, 100 * dashboard, 100 * pages, updates, 1e9 * cost.update, 100 * spans,
      1e9 * cost.span);
  EXPECT_LE(dashboard + pages + spans, 0.01);
}

TEST_F(DashboardTest, IsSeenInABrowserWhileATrainingRuns) {
  auto job = start(std::string("train --epochs 100000 --dashboard 0 ") + kTraining);
  const auto url = url_of(*job);
  ASSERT_TRUE(eventually([&] { return is_training(port_of(url)); }, 60s));
  Subprocess browser(
      {"/usr/bin/python3", BROWSE_DASHBOARD_SCRIPT, url, SCREENSHOT_FOLDER, "training"});
  const auto result = browser.wait(280s);
  if (result.exit_code == 77) GTEST_SKIP() << "chromium or chromium-driver is not installed";
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const auto* name : {"/training-1280.png", "/training-390.png"}) {
    EXPECT_GT(std::filesystem::file_size(std::string(SCREENSHOT_FOLDER) + name), 10'000U) << name;
  }
}

}  // namespace
}  // namespace lockstep::testing
