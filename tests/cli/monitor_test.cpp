#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// What a terminal is told when a program takes it over, and when it gives it back.
const std::string kOtherScreen = "\x1b[?1049h";
const std::string kOwnScreen = "\x1b[?25h\x1b[?1049l";

class MonitorTest : public ::testing::Test {
 protected:
  std::map<std::string, std::string> variables() const {
    return {{"TMPDIR", scratch_.path()}, {"XDG_RUNTIME_DIR", ""}, {"COLUMNS", ""}};
  }
  Finished monitor(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "monitor");
    return lockstep(arguments, {.environment = variables()});
  }
  /// A job of its own, and what it is called.
  std::string start_worker() {
    worker_ = std::make_unique<Subprocess>(std::vector<std::string>{STATUS_WORKER_BINARY, "wait"},
                                           SubprocessOptions{.environment = variables()});
    EXPECT_TRUE(worker_->wait_for("\n"));
    return worker_->out().substr(6, 12);
  }
  nlohmann::json job_named(const std::string& id) const {
    const auto json = nlohmann::json::parse(monitor({"--json"}).out);
    for (const auto& job : json["jobs"]) {
      if (job["id"] == id) return job;
    }
    return {};
  }

  ScratchFolder scratch_;
  std::unique_ptr<Subprocess> worker_;
};

TEST_F(MonitorTest, ShowsAProcessThatNoLauncherStartedInEightyColumns) {
  const auto job = start_worker();
  const auto result = monitor({"--job", job});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 job, 1 process"));
  EXPECT_THAT(result.out, HasSubstr(std::to_string(worker_->pid())));
  EXPECT_THAT(result.out, HasSubstr("2:120/782"));
  EXPECT_THAT(result.out, HasSubstr("training"));
  EXPECT_THAT(result.out, HasSubstr("cpu:0"));
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 90U) << line;
}

TEST_F(MonitorTest, WritesJsonForPrograms) {
  const auto job = job_named(start_worker());
  ASSERT_EQ(job["instances"].size(), 1U);
  const auto& instance = job["instances"][0];
  EXPECT_EQ(instance["pid"], worker_->pid());
  EXPECT_EQ(instance["loss"], 1.25);
  EXPECT_EQ(instance["seconds"]["compute"], 20);
  EXPECT_EQ(instance["collective"], "all_reduce");
  EXPECT_GT(instance["memory_bytes"], 0);
  EXPECT_GE(instance["seconds_since_update"], 0);
}

TEST_F(MonitorTest, ShowsTheInstancesOfAJobAndThatTheyEnded) {
  Subprocess job(lockstep_command({"run", "--num-instances", "2", "--num-replicas", "4",
                                   STATUS_WORKER_BINARY, "wait"}),
                 {.environment = variables()});
  ASSERT_TRUE(job.wait_for("[0] ready "));
  ASSERT_TRUE(job.wait_for("[1] ready "));
  const auto id = job.out().substr(job.out().find("ready ") + 6, 12);
  const auto found = job_named(id);
  ASSERT_EQ(found["instances"].size(), 2U);
  EXPECT_EQ(found["instances"][1]["first_replica"], 2);
  EXPECT_EQ(found["instances"][1]["local_replicas"], 2);
  EXPECT_EQ(found["instances"][1]["num_instances"], 2);
  job.signal(SIGTERM);
  job.wait();
  EXPECT_TRUE(job_named(id).is_null());
  EXPECT_TRUE(scratch_.is_empty());
}

TEST_F(MonitorTest, NamesAJobWhoseProgramSaysNothing) {
  Subprocess job(lockstep_command(shell({}, "echo ready $LOCKSTEP_JOB_ID; sleep 60")),
                 {.environment = variables()});
  ASSERT_TRUE(job.wait_for("\n"));
  const auto id = job.out().substr(6, 12);
  EXPECT_THAT(monitor({"--job", id}).out,
              HasSubstr("job " + id + " runs, but its program publishes no status\n"));
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(MonitorTest, SurvivesDamagedPagesAndRemovesWhatDeadJobsLeft) {
  const auto parent = scratch_.path() + "/lockstep-" + std::to_string(::getuid());
  start_worker();
  const auto folder = fs::directory_iterator(parent)->path();
  { std::ofstream(folder / "status-7") << "nonsense"; }
  fs::create_directory(parent + "/0123456789ab");
  const auto result = monitor({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("instance 7: status page: cut short: 8 of 4096 bytes\n"));
  EXPECT_FALSE(fs::exists(parent + "/0123456789ab"));
  EXPECT_TRUE(fs::exists(folder));
}

TEST_F(MonitorTest, ShowsGpusWhereTheirLibraryIsThere) {
  auto environment = variables();
  environment["LD_LIBRARY_PATH"] = FAKE_NVML_FOLDER;
  environment["COLUMNS"] = "120";
  const auto result = lockstep({"monitor"}, {.environment = environment});
  EXPECT_THAT(result.out, HasSubstr("NVIDIA H200"));
  EXPECT_THAT(result.out, HasSubstr("61.0/140.0 GiB"));
  EXPECT_THAT(result.out, HasSubstr("512 W"));
}

struct BadInput {
  std::vector<std::string> arguments;
  std::string error;
  std::string hint;
};

TEST_F(MonitorTest, RefusesEachBadInputWithSomethingThatWouldWork) {
  for (const auto& [arguments, error, hint] : {
           BadInput{{"--sort", "cpus"},
                    "--sort: expected one of job, cpu, memory, samples, time, "
                    "found 'cpus'",
                    "--sort cpu"},
           BadInput{{"--watch", "--json"}, "found both", "lockstep monitor --json"},
           BadInput{{"--watch", "--interval", "0"},
                    "expected 0.1 to 3600 seconds, found 0",
                    "--interval 1"},
           BadInput{{"--watch", "--interval", "nan"},
                    "expected 0.1 to 3600 seconds, found nan",
                    "--interval 1"},
           BadInput{{"--interval", "2"}, "expected --watch beside it", "--watch --interval"},
           BadInput{{"--interval", "soon"}, "soon", "lockstep monitor --help"},
           BadInput{{"--job", ""}, "expected the name of a job, found ''", "which lists them"},
           BadInput{{"--wacht"}, "unknown option '--wacht'", "--watch"},
           BadInput{{"everything"}, "unknown option 'everything'", "lockstep monitor --help"},
           BadInput{{"--watch"}, "expected a terminal to draw on", "without --watch"},
       }) {
    const auto result = monitor(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments.front();
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("lockstep: monitor"));
    EXPECT_THAT(result.err, HasSubstr(error));
    EXPECT_THAT(result.err, HasSubstr("  try: "));
    EXPECT_THAT(result.err, HasSubstr(hint));
  }
}

TEST_F(MonitorTest, SaysWhichJobsThereAreWhereTheNameIsWrong) {
  const auto job = start_worker();
  const auto wrong = monitor({"--job", "xyz"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("found 'xyz'"));
  EXPECT_THAT(wrong.err, HasSubstr(job));
  EXPECT_EQ(monitor({"--job", job.substr(0, 8)}).exit_code, 0);
}

/// Drawn on a terminal of 60 columns and 24 rows.
class MonitorWatchTest : public MonitorTest {
 protected:
  std::unique_ptr<Subprocess> watch(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"monitor", "--watch", "--interval", "0.1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<Subprocess>(
        lockstep_command(arguments),
        SubprocessOptions{.environment = variables(), .terminal = true});
  }
  static void expect_restored(const Finished& finished) {
    EXPECT_THAT(finished.out, ::testing::StartsWith(kOtherScreen));
    EXPECT_THAT(finished.out, ::testing::EndsWith(kOwnScreen));
  }
};

TEST_F(MonitorWatchTest, RedrawsInPlaceUntilAKeyEndsIt) {
  const auto job = start_worker();
  const auto watching = watch();
  ASSERT_TRUE(watching->wait_for("q quit   s sort: job   j job: all"));
  ASSERT_TRUE(watching->wait_for(std::to_string(worker_->pid())));
  ASSERT_TRUE(watching->wait_for("\x1b[J\x1b[H"));  // a second drawing where the first was
  watching->type("q");
  const auto finished = watching->wait();
  EXPECT_EQ(finished.exit_code, 0);
  expect_restored(finished);
}

TEST_F(MonitorWatchTest, KeysChangeOrderAndJob) {
  const auto job = start_worker();
  const auto watching = watch({"--job", job});
  ASSERT_TRUE(watching->wait_for("j job: " + job));
  watching->type("s");
  ASSERT_TRUE(watching->wait_for("s sort: cpu"));
  watching->type("ss");
  ASSERT_TRUE(watching->wait_for("s sort: samples   j job: " + job));
  // To the next job, or to all where there is no other: this machine may have more.
  watching->type("js");
  ASSERT_TRUE(watching->wait_for("s sort: time   j job: "));
  EXPECT_THAT(watching->out(), Not(HasSubstr("s sort: time   j job: " + job)));
  watching->type("q");
  expect_restored(watching->wait());
}

TEST_F(MonitorWatchTest, SignalsGiveTheTerminalBackToo) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const auto watching = watch();
    ASSERT_TRUE(watching->wait_for("q quit"));
    watching->signal(signal);
    const auto finished = watching->wait();
    EXPECT_EQ(finished.exit_code, 128 + signal);
    EXPECT_EQ(finished.signal, 0);
    expect_restored(finished);
  }
}

TEST_F(MonitorWatchTest, ControlCEndsIt) {
  const auto watching = watch();
  ASSERT_TRUE(watching->wait_for("q quit"));
  watching->type("\x03");
  const auto finished = watching->wait();
  EXPECT_EQ(finished.exit_code, 128 + SIGINT);
  expect_restored(finished);
}

TEST_F(MonitorWatchTest, GivesTheTerminalBackWhileItIsStopped) {
  const auto watching = watch();
  ASSERT_TRUE(watching->wait_for("q quit"));
  watching->signal(SIGTSTP);
  ASSERT_TRUE(watching->wait_for(kOwnScreen));
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(watching->pid()), &info, WSTOPPED | WNOWAIT), 0);
  watching->signal(SIGCONT);
  ASSERT_TRUE(watching->wait_for(kOwnScreen + kOtherScreen));
  watching->type("q");
  expect_restored(watching->wait());
}

TEST_F(MonitorWatchTest, EndsWithItsTerminalThoughNobodyTellsIt) {
  Subprocess watching({"sh", "-c", "trap '' HUP; exec " LOCKSTEP_BINARY " monitor --watch"},
                      {.environment = variables(), .terminal = true});
  ASSERT_TRUE(watching.wait_for("q quit"));
  watching.close_stdout();
  EXPECT_TRUE(watching.wait_for_exit(20s));
}

TEST_F(MonitorWatchTest, SettingsOfTheTerminalAreAsTheyWere) {
  // A shell on the same terminal, which shows the settings before and after.
  const std::string script = "stty -a </dev/tty >" + scratch_.path() +
                             "/before; " LOCKSTEP_BINARY " monitor --watch; stty -a </dev/tty >" +
                             scratch_.path() + "/after; echo over";
  Subprocess shell({"sh", "-c", script}, {.environment = variables(), .terminal = true});
  ASSERT_TRUE(shell.wait_for("q quit"));
  shell.type("q");
  ASSERT_TRUE(shell.wait_for("over"));
  EXPECT_EQ(read_file(scratch_.path() + "/before"), read_file(scratch_.path() + "/after"));
  EXPECT_THAT(read_file(scratch_.path() + "/after"), HasSubstr(" icanon"));
}

}  // namespace
}  // namespace lockstep::testing
