// The dashboard of real trainings.
#include <gmock/gmock.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/monitor/export/span_file.h"
#include "lockstep/monitor/export/span_recorder.h"
#include "lockstep/monitor/export/tensorboard_writer.h"
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
    "--eval-every 0 --replicas 4 --num-instances 2 --lr 0.001 ";

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
  /// Waits for the folder of this test's only job, which has the name of the job.
  std::string wait_for_job() const {
    const auto parent = path("lockstep-" + std::to_string(::getuid()));
    std::string job;
    const auto is_there = [&] {
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
        job = entry.path().filename().string();
      }
      return !job.empty();
    };
    EXPECT_TRUE(eventually(is_there, 60s));
    return job;
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
  EXPECT_EQ(shown["instances"].size(), 2U);
  EXPECT_THAT(shown["events"].dump(), HasSubstr("start"));
  EXPECT_THAT(shown["bottleneck"].get<std::string>(), HasSubstr(" % of the time"));
  job->signal(SIGTERM);
  job->wait();
  EXPECT_TRUE(eventually([&] { return !can_connect(port); }, 20s));
}

TEST_F(DashboardTest, ShowsHowTheJobEndedBeforeItEndsWithTheJob) {
  auto job = start(std::string("train --epochs 100000 --dashboard 0 ") + kTraining);
  const auto port = port_of(url_of(*job));
  ASSERT_TRUE(eventually([&] { return is_training(port); }, 60s));
  OpenPage page(port);
  auto state = page.next();
  ASSERT_TRUE(state);
  job->signal(SIGTERM);
  while (const auto next = page.next(60s)) state = next;
  const auto last = state->at("jobs").at(0);
  EXPECT_EQ(last["state"], "ended");
  EXPECT_THAT(last["end"]["text"].get<std::string>(), HasSubstr("interrupted by SIGTERM after "));
  ASSERT_EQ(last["instances"].size(), 2U);
  EXPECT_EQ(last["instances"][1]["alive"], false);
  EXPECT_EQ(last["instances"][1]["phase"], "ended");
  job->wait();
}

TEST_F(DashboardTest, KeepsAJobThatHasFailedWithItsInstancesAndItsCause) {
  auto job = start(std::string("train --epochs 100000 ") + kTraining);
  auto dashboard = start("dashboard --port 0 --job " + wait_for_job());
  const auto port = port_of(url_of(*dashboard));
  const auto instances = [&] { return jobs_at(port)[0]["instances"]; };
  ASSERT_TRUE(eventually([&] { return is_training(port) && instances().size() == 2; }, 60s));
  ::kill(instances()[1]["pid"].get<pid_t>(), SIGKILL);
  EXPECT_EQ(job->wait().exit_code, 128 + SIGKILL);
  ASSERT_TRUE(eventually([&] { return jobs_at(port)[0]["state"] == "ended"; }, 20s));
  const auto shown = jobs_at(port)[0];
  EXPECT_EQ(shown["end"]["exit_code"], 128 + SIGKILL);
  EXPECT_THAT(shown["end"]["text"].get<std::string>(),
              HasSubstr("(exit code 137): instance 1: killed by SIGKILL"));
  EXPECT_EQ(instances().size(), 2U);
  EXPECT_EQ(instances()[0]["replicas"].size(), 2U);
  EXPECT_FALSE(shown["curves"].empty());
  EXPECT_THAT(shown["events"].dump(), HasSubstr("\"end\""));
}

TEST_F(DashboardTest, ShowsThatAJobHasSucceeded) {
  const auto script = "while ! test -e " + path("go") + "; do sleep 0.05; done";
  Subprocess job(lockstep_command(shell({"--num-instances", "2"}, script)), here());
  auto dashboard = start("dashboard --port 0 --job " + wait_for_job());
  const auto port = port_of(url_of(*dashboard));
  const auto has_started = [&] {
    const auto jobs = jobs_at(port);
    return jobs.size() == 1 && jobs[0]["events"].size() >= 2;
  };
  ASSERT_TRUE(eventually(has_started, 20s));
  write_file(path("go"), "");
  EXPECT_EQ(job.wait().exit_code, 0);
  ASSERT_TRUE(eventually([&] { return jobs_at(port)[0]["state"] == "ended"; }, 20s));
  const auto end = jobs_at(port)[0]["end"];
  EXPECT_EQ(end["exit_code"], 0);
  EXPECT_THAT(end["text"].get<std::string>(), ::testing::StartsWith("succeeded after "));
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

TEST_F(DashboardTest, TakesATokenFromAFileOrFromStandardInputAndNotFromTheCommandLine) {
  const std::string token = "0123456789abcdef";
  write_file(path("token"), token + "\n");
  auto options = here();
  options.input = token + "\n";
  for (const auto& file : {path("token"), std::string("-")}) {
    Subprocess dashboard(lockstep_command({"dashboard", "--port", "0", "--token-file", file}),
                         options);
    ASSERT_TRUE(dashboard.wait_for("/?token=" + token + "\n", 60s)) << file;
    const auto port = port_of(dashboard.out());
    EXPECT_EQ(status_of(ask(port, "GET /api/jobs")), 401);
    EXPECT_EQ(status_of(ask(port, "GET /api/jobs",
                            "Host: localhost\r\nAuthorization: Bearer " + token + "\r\n")),
              200);
    const auto line = read_file("/proc/" + std::to_string(dashboard.pid()) + "/cmdline");
    EXPECT_EQ(line.find(token), std::string::npos);
  }
}

TEST_F(DashboardTest, RefusesATokenThatIsMissingOrTooShort) {
  const auto missing = lockstep({"dashboard", "--token-file", path("none")}, here());
  EXPECT_EQ(missing.exit_code, exit_code(ErrorKind::Io));
  EXPECT_THAT(missing.err, HasSubstr(path("none")));
  write_file(path("short"), "word\n");
  const auto guessed = lockstep({"dashboard", "--token-file", path("short")}, here());
  EXPECT_EQ(guessed.exit_code, exit_code(ErrorKind::Options));
  EXPECT_THAT(guessed.err, HasSubstr("expected a token of 16 to 128 characters, found 4"));
  const auto nothing = lockstep({"dashboard", "--token-file", "-"}, here());
  EXPECT_THAT(nothing.err, HasSubstr("expected a token of 16 to 128 characters, found 0"));
}

/// A launcher beside which lies a dashboard that never says that it serves.
class SilentDashboardTest : public DashboardTest {
 protected:
  Words command() const {
    const auto launcher = path("lockstep");
    std::filesystem::copy_file(LOCKSTEP_BINARY, launcher);
    write_file(path("lockstep-dashboard"),
               "#!/bin/sh\n: > " + path("waited-for") + "\nexec sleep 1000\n");
    std::filesystem::permissions(path("lockstep-dashboard"), std::filesystem::perms::owner_all);
    return {launcher, "run", "--dashboard", "0", "touch", path("ran")};
  }
};

TEST_F(SilentDashboardTest, IsNotWaitedForForEver) {
  const auto result = run(command(), here());
  EXPECT_EQ(result.exit_code, exit_code(ErrorKind::Timeout));
  EXPECT_THAT(result.err, HasSubstr("run: --dashboard: expected lockstep-dashboard to say within "
                                    "10 s at which address it serves, found that it has not"));
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
}

TEST_F(SilentDashboardTest, KeepsNobodyFromEndingTheLauncher) {
  Subprocess job(command(), here());
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path("waited-for")); }, 20s));
  job.signal(SIGINT);
  const auto result = job.wait();
  EXPECT_EQ(result.signal, SIGINT);
  // It would say this after ten seconds.
  EXPECT_THAT(result.err, ::testing::Not(HasSubstr("to say within")));
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
}

/// Stops a process half of the time, as a busy neighbour on its core would.
class Brake {
 public:
  explicit Brake(pid_t process)
      : thread_([this, process] {
          while (!is_over_) {
            ::kill(process, SIGSTOP);
            std::this_thread::sleep_for(40ms);
            ::kill(process, SIGCONT);
            std::this_thread::sleep_for(40ms);
          }
        }) {}
  ~Brake() {
    is_over_ = true;
    thread_.join();
  }
  Brake(const Brake&) = delete;
  Brake& operator=(const Brake&) = delete;

 private:
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

TEST_F(DashboardTest, MarksTheInstanceOfATrainingThatTheOthersWaitFor) {
  auto job = start(
      "train --epochs 100000 --dashboard 0 --model convnet --dataset synthetic --size 512 "
      "--image-size 32x32x3 --limit-test 16 --batch-size 16 --eval-every 0 --replicas 2 "
      "--num-instances 2");
  const auto port = port_of(url_of(*job));
  ASSERT_TRUE(eventually([&] { return is_training(port); }, 60s));
  const Brake brake(jobs_at(port)[0]["instances"][1]["pid"].get<pid_t>());
  const auto is_marked = [&] {
    const auto jobs = jobs_at(port);
    return jobs.size() == 1 && jobs[0].value("slowest", Json()) == 1;
  };
  EXPECT_TRUE(eventually(is_marked, 60s)) << jobs_at(port);
}

/// Sends so many requests while the dashboard serves. Returns how many it sent.
int send_malformed(int port, int count) {
  std::mt19937 random(1);
  std::deque<std::unique_ptr<RawConnection>> held;  // more than the server has room for
  int sent = 0;
  try {
    for (; sent < count; ++sent) {
      held.push_back(std::make_unique<RawConnection>(port));
      held.back()->send(malformed(static_cast<std::size_t>(sent), random));
      if (held.size() > 300) held.pop_front();
      held[random() % held.size()]->send("x");
    }
  } catch (const Error&) {
    // The dashboard has ended with its training.
  }
  return sent;
}

TEST_F(DashboardTest, Requests10000MalformedOrSlowChangeNeitherDigestNorEnd) {
  constexpr int kRequests = 10'000;
  int sent = 0;
  // If the training ends before the last request, it was too short for this machine. The next one
  // is longer.
  for (int epochs = 450; sent < kRequests && epochs <= 2400 && !HasFailure(); epochs *= 2) {
    const auto training = std::string(kTraining) + "--epochs " + std::to_string(epochs) + " ";
    auto job = start("train --dashboard 0 " + training);
    const auto port = port_of(url_of(*job));
    ASSERT_TRUE(eventually([&] { return is_training(port); }, 60s));
    sent = send_malformed(port, kRequests);
    const auto end = job->wait(300s);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    if (sent < kRequests) continue;
    const auto undisturbed = lockstep(words("train " + training), here());
    ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
    EXPECT_EQ(printed_digest(end), printed_digest(undisturbed));
  }
  EXPECT_EQ(sent, kRequests) << "the trainings ended before";
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

/// CPU seconds of one update of a status page, of one span, and of one value for TensorBoard.
struct UnitCosts {
  double update = 0;
  double span = 0;
  double value = 0;
};

double seconds_on(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// CPU seconds of all threads of a process, more precise than the ticks of 10 ms in /proc.
double cpu_seconds(pid_t process) {
  clockid_t clock{};
  EXPECT_EQ(::clock_getcpuclockid(process, &clock), 0) << process;
  return seconds_on(clock);
}

/// Other processes evict this one from the processor's caches, so the cheapest of ten rounds
/// counts.
UnitCosts measure_costs(const std::string& folder) {
  const auto seconds_each = [](int times, const auto& action) {
    constexpr int kRounds = 10;
    auto least = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = seconds_on(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < times; ++i) action(round * times + i);
      least = std::min(least, (seconds_on(CLOCK_THREAD_CPUTIME_ID) - begin) / times);
    }
    return least;
  };
  const topology::Environment environment({{"TMPDIR", folder}});
  monitor::StatusPublisher status({}, environment, monitor::DeviceKind::Cpu);
  monitor::SpanRecorder recorder(folder + "/measured", {});
  auto& track = recorder.track("device 0");
  monitor::TensorBoardWriter curves(folder + "/measured-curves");
  return {
      .update = seconds_each(20'000, [&](int step) { status.on({.step = step}); }),
      .span = seconds_each(20'000,
                           [&](int step) {
                             const events::TimedScope scope(&track, events::SpanKind::Forward,
                                                            step);
                           }),
      .value = seconds_each(2'000, [&](int step) { curves.add_scalar("train/loss", step, 1.5); })};
}

/// That all instances have recorded so far.
std::uint64_t spans_in(const std::string& folder) {
  std::uint64_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("spans-")) continue;
    for (const auto& track : monitor::read_span_file(entry.path().string()).tracks) {
      count += track.spans.size() + track.lost;
    }
  }
  return count;
}

/// Records of the event files in a folder, each of which is one write: a length, its checksum, so
/// many bytes, their checksum.
std::uint64_t values_in(const std::string& folder) {
  std::uint64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto file = read_file(entry.path().string());
    for (std::size_t at = 0; at + 8 <= file.size(); ++count) {
      std::uint64_t length = 0;
      std::memcpy(&length, file.data() + at, sizeof(length));
      at += 8 + 4 + length + 4;
    }
  }
  return count;
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

/// CPU time of the dashboard and of the job so far, and what the job has recorded for observers.
struct Work {
  std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
  double dashboard_seconds = 0;
  double job_seconds = 0;
  double updates = 0;
  double spans = 0;
  double values = 0;
};

/// The CPU time of observation in a window, as shares of the CPU time of the job.
struct Shares {
  double dashboard = 0;
  double pages = 0;
  double trace = 0;
  double curves = 0;

  double total() const { return dashboard + pages + trace + curves; }
};

/// The dashboard does the same work each second, however fast the job is. It is compared with the
/// CPU time that the job uses on an idle machine: that of one core for each of the two instances.
Shares shares_of(const Work& before, const Work& after, const UnitCosts& cost) {
  const std::chrono::duration<double> passed = after.time - before.time;
  const auto cores = std::min(std::thread::hardware_concurrency(), 2U);
  const auto job_seconds = after.job_seconds - before.job_seconds;
  const auto updates = after.updates - before.updates;
  const auto spans = after.spans - before.spans;
  const auto values = after.values - before.values;
  const Shares shares{
      .dashboard = (after.dashboard_seconds - before.dashboard_seconds) / (passed.count() * cores),
      .pages = updates * cost.update / job_seconds,
      .trace = spans * cost.span / job_seconds,
      .curves = values * cost.value / job_seconds};
  std::printf(
      "of %.1f CPU seconds in %.1f s on %u cores: dashboard %.3f %%, status pages %.3f %% (%.0f "
      "updates of %.0f ns), "
      "trace %.3f %% (%.0f spans of %.0f ns), TensorBoard %.3f %% (%.0f values of %.0f ns)\n",
      job_seconds, passed.count(), cores, 100 * shares.dashboard, 100 * shares.pages, updates,
      1e9 * cost.update, 100 * shares.trace, spans, 1e9 * cost.span, 100 * shares.curves, values,
      1e9 * cost.value);
  return shares;
}

/// The CPU time of observation as a share of the CPU time of the job: a page that is open in a
/// browser, status pages, a trace, TensorBoard. A real network computes for longer between two
/// updates than this one does.
///
/// Runs alone, and the cheapest of three windows counts. Even so, the result hardly depends on
/// other load of the machine: updates, spans and values are counted per CPU second of the job, and
/// one of each costs about the same CPU time whenever it is measured.
TEST_F(DashboardTest, CostsAtMostOnePercentOfTheJobsCpuSeconds) {
  auto job = start("train --epochs 100000 --dashboard 0 --model convnet --trace " + path("t.json") +
                   " --tensorboard " + path("curves") +
                   " --dataset synthetic --size 512 "
                   "--image-size 32x32x3 --limit-test 16 --batch-size 16 --eval-every 0 "
                   "--replicas 2 --num-instances 2");
  const auto port = port_of(url_of(*job));
  ASSERT_TRUE(eventually([&] { return is_training(port); }, 60s));
  OpenPage page(port);
  const auto look = [&] {
    Work seen{.dashboard_seconds = cpu_seconds(dashboard_of(*job))};
    const auto found = nlohmann::json::parse(lockstep({"monitor", "--json"}, here()).out);
    for (const auto& instance : found["jobs"][0]["instances"]) {
      seen.job_seconds += cpu_seconds(instance["pid"]);
    }
    seen.updates = static_cast<double>(updates_of(found["jobs"][0]));
    seen.spans = static_cast<double>(spans_in(folder_.path()));
    seen.values = static_cast<double>(values_in(path("curves")));
    return seen;
  };
  std::vector<Work> looks{look()};
  for (int window = 0; window < 3; ++window) {
    const auto end = std::chrono::steady_clock::now() + 2s;
    while (std::chrono::steady_clock::now() < end) ASSERT_TRUE(page.next());
    looks.push_back(look());
  }
  EXPECT_GT(looks.back().spans, looks.front().spans);
  EXPECT_GT(looks.back().values, looks.front().values);
  const auto cost = measure_costs(folder_.path());
  auto least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < looks.size(); ++i) {
    least = std::min(least, shares_of(looks[i - 1], looks[i], cost).total());
  }
  EXPECT_LE(least, 0.01);
}

TEST_F(DashboardTest, IsSeenInABrowserWhileATrainingRuns) {
  // A browser that begins beside a training on all cores would take a minute for it.
  auto command =
      lockstep_command(words(std::string("train --epochs 100000 --dashboard 0 ") + kTraining));
  command.insert(command.begin(), {"nice", "-n", "19"});
  Subprocess job(command, here());
  const auto url = url_of(job);
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
