#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/cli/train_runs.h"

// Trainings in real processes that are disturbed at moments which a seed chooses. `make test` has a
// few of each kind; `make chaos` sets LOCKSTEP_CHAOS_RUNS, and has many.

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

int runs_of(const char* kind, int few) {
  const auto* const many = std::getenv("LOCKSTEP_CHAOS_RUNS");
  if (many == nullptr) return few;
  // "kill=100,stop=30,launcher=30"
  std::istringstream entries(many);
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (entry.starts_with(std::string(kind) + "="))
      return std::stoi(entry.substr(entry.find('=') + 1));
  }
  return few;
}

unsigned seed_of_run(int run) {
  const auto* const seed = std::getenv("LOCKSTEP_CHAOS_SEED");
  return (seed == nullptr ? 1U : static_cast<unsigned>(std::stoul(seed))) * 1000003U +
         static_cast<unsigned>(run);
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class TrainRecoveryTest : public TrainRunsTest {
 protected:
  static constexpr int kInstances = 4;
  /// Only detect hangs.
  static constexpr auto kTrainingLimit = 120s;
  static constexpr auto kDisturbedTrainingLimit = 300s;

  void SetUp() override { mark_ = unique_mark("recovery"); }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes_with(variable()).empty(); }, 30s))
        << "processes are left";
  }

  /// A training of a second or two, whose digests are recorded.
  Words train(const std::string& name, const std::string& more) const {
    return words(fmt::format(
        "{} train --model convnet --dataset synthetic --size 1024 --image-size 8x8x1 "
        "--batch-size 4 --gradient-accumulation 2 --device-iterations 2 --replicas 4 --epochs 3 "
        "--limit-test 32 --threads-per-device 1 --num-instances {} --ema-decay 0.9 --cache-path {} "
        "--digest-every 8 --log-dir {} --summary {}.json {}",
        LOCKSTEP_BINARY, kInstances, path("cache"), path(name), path(name), more));
  }

  /// The same training with 12 epochs of 16 iterations. It lasts long enough for a test to act in
  /// the middle of it.
  static Words longer(Words command) {
    *std::next(std::ranges::find(command, "--epochs")) = "12";
    return command;
  }

  Subprocess start(const Words& command) const {
    return Subprocess(command, {.environment = {{"LOCKSTEP_TEST_MARK", mark_}}});
  }
  std::string variable() const { return "LOCKSTEP_TEST_MARK=" + mark_; }

  /// The events of a run so far; a line that is being written is left out.
  std::vector<Json> events(const std::string& name) const {
    std::vector<Json> all;
    std::ifstream file(path(name) + "/events.jsonl");
    for (std::string line; std::getline(file, line);) {
      auto json = Json::parse(line, nullptr, false);
      if (json.is_object()) all.push_back(std::move(json));
    }
    return all;
  }

  std::vector<Json> events(const std::string& name, const std::string& kind) const {
    auto all = events(name);
    std::erase_if(all, [&](const Json& event) { return event.at("event") != kind; });
    return all;
  }

  /// The processes of the first attempt, once all have been started.
  std::vector<pid_t> instances(const std::string& name) const {
    std::vector<pid_t> pids;
    EXPECT_TRUE(eventually([&] { return std::ssize(events(name, "start")) >= kInstances; }, 60s));
    for (const auto& event : events(name, "start")) pids.push_back(event.at("pid").get<pid_t>());
    return pids;
  }

  /// The times of an undisturbed run, in seconds.
  struct Undisturbed {
    double instances_run = 0;  ///< from the start of the last instance to the end of the job
    double first_step = 0;     ///< from the start of the launcher to the end of the first step

    /// A stall timeout within which all instances start, also on a busy machine.
    double stall_timeout() const { return std::max(2.0, 2 * first_step); }
    /// A mean time between failures in which most attempts make a step.
    double mtbf() const { return std::max(1.5, 1.5 * first_step); }
  };
  Undisturbed undisturbed(const std::string& name) {
    const auto start_time = unix_time();
    auto process = start(train(name, ""));
    instances(name);
    const auto begin = Clock::now();
    const auto finished = process.wait(kTrainingLimit);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return {
        .instances_run = std::chrono::duration<double>(Clock::now() - begin).count(),
        .first_step = summary_of(name).at("first_step_unix_s").get<double>() - start_time,
    };
  }

  /// After an undisturbed run, sends a signal to one of the instances of another at a moment that
  /// the seed chooses. Returns how the run ended, and when the signal was sent.
  struct Disturbed {
    Finished finished;
    double time = 0;
  };
  Disturbed disturb(const std::string& name, const std::string& more, unsigned seed, int number,
                    double duration) {
    std::mt19937 random(seed);
    auto process = start(train(name, more));
    const auto pids = instances(name);
    const auto after = std::uniform_real_distribution<double>(0, duration)(random);
    const auto which = std::uniform_int_distribution<std::size_t>(0, kInstances - 1)(random);
    std::this_thread::sleep_for(std::chrono::duration<double>(after));
    Disturbed result{.finished = {}, .time = unix_time()};
    ::kill(pids[which], number);
    result.finished = process.wait(kDisturbedTrainingLimit);
    return result;
  }

  std::string mark_;
};

TEST_F(TrainRecoveryTest, AKilledInstanceCostsAStepAndNoBit) {
  // A recovery starts new processes, so its time is compared with that of a start. Both depend on
  // the load of the machine, so an undisturbed run is measured right before each kill, until one
  // recovery was fast enough.
  constexpr double kMostStarts = 3;
  auto calm = undisturbed("calm");
  std::vector<double> seconds;
  auto fastest = std::numeric_limits<double>::infinity();  // in undisturbed starts
  for (int i = 0; i < runs_of("kill", 4); ++i) {
    SCOPED_TRACE(i);
    if (i > 0 && fastest >= kMostStarts) {
      calm = undisturbed("calm-again");
      std::filesystem::remove_all(path("calm-again"));
    }
    const auto name = fmt::format("killed-{}", i);
    const auto [finished, time] =
        disturb(name, "--max-restarts 2", seed_of_run(i), SIGKILL, calm.instances_run);
    ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    expect_same("calm", name);
    if (HasFailure()) return;
    const auto restarts = events(name, "restart").size();
    EXPECT_LE(restarts, 1U) << finished.err;
    if (const auto first = summary_of(name).at("first_step_unix_s").get<double>();
        restarts == 1 && first > time) {
      seconds.push_back(first - time);
      fastest = std::min(fastest, seconds.back() / calm.first_step);
    }
    std::filesystem::remove_all(path(name));
  }
  if (seconds.empty()) return;
  std::ranges::sort(seconds);
  const auto median = seconds[seconds.size() / 2];
  fmt::print(
      "from kill to the end of the next step: median {:.2f} s, longest {:.2f} s, of {}; "
      "from start to the end of the first step: {:.2f} s; fastest recovery: {:.1f} starts\n",
      median, seconds.back(), seconds.size(), calm.first_step, fastest);
  EXPECT_LT(fastest, kMostStarts);
}

/// As a kill between a step and its record leaves it.
TEST_F(TrainRecoveryTest, AStepThatWasNotRecordedIsWhenTheRunGoesOn) {
  const auto calm = run(train("calm", "--checkpoint-dir " + path("points")));
  ASSERT_EQ(calm.exit_code, 0) << calm.err;
  auto log = read_file(path("calm") + "/digests.jsonl");
  log.resize(log.rfind('\n', log.size() - 2) + 1);
  std::filesystem::create_directories(path("cut"));
  write_file(path("cut") + "/digests.jsonl", log);
  const auto resumed = run(train("cut", "--resume " + path("points")));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  const auto compared = diff("calm", "cut");
  EXPECT_EQ(compared.out, "the runs agree in all 12 recorded steps\n") << compared.err;
}

TEST_F(TrainRecoveryTest, AStoppedInstanceIsGivenUpAtTheDeadline) {
  const auto calm = undisturbed("calm");
  for (int i = 0; i < runs_of("stop", 2); ++i) {
    SCOPED_TRACE(i);
    const auto name = fmt::format("stopped-{}", i);
    // More restarts than stops: on a busy machine an instance may start later than the deadline.
    const auto [finished, time] =
        disturb(name, fmt::format("--max-restarts 9 --stall-timeout {:.1f}", calm.stall_timeout()),
                seed_of_run(i), SIGSTOP, calm.instances_run);
    ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    expect_same("calm", name);
    if (HasFailure()) return;
    // An instance that waits in the rendezvous fails at the deadline, and reports no stall.
    const auto has_timed_out = [](const Json& failure) {
      return failure.value("exit_code", 0) == exit_code(ErrorKind::Timeout);
    };
    const bool is_noticed = !events(name, "stall").empty() ||
                            std::ranges::any_of(events(name, "failure"), has_timed_out);
    EXPECT_TRUE(is_noticed || events(name, "restart").empty()) << finished.err;
    std::filesystem::remove_all(path(name));
  }
}

TEST_F(TrainRecoveryTest, AKilledLauncherIsGoneOnFromTheCheckpoint) {
  const auto duration = undisturbed("calm").instances_run;
  for (int i = 0; i < runs_of("launcher", 2); ++i) {
    SCOPED_TRACE(i);
    const auto name = fmt::format("launcher-{}", i);
    const auto folder = path(name) + "-checkpoints";
    const auto more =
        fmt::format("--checkpoint-dir {} --checkpoint-every 10 --resume=auto", folder);
    std::mt19937 random(seed_of_run(i));
    {
      auto process = start(train(name, more));
      instances(name);
      const auto after = std::uniform_real_distribution<double>(0, duration)(random);
      std::this_thread::sleep_for(std::chrono::duration<double>(after));
      process.signal(SIGKILL);
      process.wait_for_exit(20s);
    }
    ASSERT_TRUE(eventually([&] { return processes_with(variable()).empty(); }, 30s));
    const auto finished = start(train(name, more)).wait(kTrainingLimit);
    ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    expect_same("calm", name);
    if (HasFailure()) return;
    std::filesystem::remove_all(path(name));
    std::filesystem::remove_all(folder);
  }
}

TEST_F(TrainRecoveryTest, FaultsFromASeedChangeNoBit) {
  const auto calm = undisturbed("calm");
  // With this seed, the first five faults are of all kinds. Each comes after less than the mean
  // time between failures.
  constexpr unsigned kEarly = 2;
  for (int i = 0; i < runs_of("chaos", 1); ++i) {
    SCOPED_TRACE(i);
    const auto name = fmt::format("chaos-{}", i);
    const auto seed = i == 0 ? kEarly : seed_of_run(i);
    auto process = start(
        train(name, fmt::format("--max-restarts 50 --stall-timeout {:.1f} --chaos {},mtbf={:.2f}",
                                calm.stall_timeout(), seed, calm.mtbf())));
    const auto finished = process.wait(kDisturbedTrainingLimit);
    ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    expect_same("calm", name);
    EXPECT_TRUE(i > 0 || !events(name, "chaos").empty());
    std::filesystem::remove_all(path(name));
  }
}

TEST_F(TrainRecoveryTest, SigtermLeavesACheckpointAndACodeOfItsOwn) {
  const auto calm = run(longer(train("calm", "")));
  ASSERT_EQ(calm.exit_code, 0) << calm.err;
  const auto folder = path("checkpoints");
  auto command = longer(train("stopped", "--checkpoint-dir " + folder + " --resume=auto"));
  auto process = start(command);
  ASSERT_TRUE(process.wait_for("[Epoch 01]"));
  process.signal(SIGTERM);
  const auto stopped = process.wait(kTrainingLimit);
  EXPECT_EQ(stopped.exit_code, 75) << stopped.out << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("; wrote a checkpoint"));
  const auto taken = events("stopped", "checkpoint");
  ASSERT_FALSE(taken.empty());
  EXPECT_EQ(taken.back().at("reason"), "stopped");

  // Another number of instances goes on.
  *std::next(std::ranges::find(command, "--num-instances")) = "3";
  const auto finished = start(command).wait(kTrainingLimit);
  EXPECT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("continues after step"));
  expect_same("calm", "stopped");
}

/// The number of lines in the first curve of a report, which is the loss of the training.
std::ptrdiff_t lines_of_first_curve(const std::string& page) {
  const std::string curve = "<g class=\"curve c0\"><path d=\"";
  const auto found = page.find(curve);
  if (found == std::string::npos) return 0;
  const auto begin = found + curve.size();
  return std::ranges::count(page.substr(begin, page.find('"', begin) - begin), 'L');
}

TEST_F(TrainRecoveryTest, AReportShowsARestartAndTheCurvesBeforeIt) {
  const auto report = path("report.html");
  auto process = start(longer(train("killed", "--max-restarts 2 --report " + report)));
  instances("killed");
  ASSERT_TRUE(process.wait_for("[Epoch 02]", 60s));
  for (const auto& event : events("killed", "start")) {
    if (event.at("instance") == 0) ::kill(event.at("pid").get<pid_t>(), SIGKILL);
  }
  const auto finished = process.wait(kDisturbedTrainingLimit);
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  const auto page = read_file(report);
  for (const auto* part :
       {"The run finished.", "<td>failure</td>", "<td>restart</td>", "<td>resume</td>",
        "<tr><th scope=\"row\">restarts</th><td>1</td></tr>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, HasSubstr(printed_digest(finished)));
  // The kill costs the points of at most a few iterations.
  EXPECT_GE(lines_of_first_curve(page), 12 * 16 - 5);
  EXPECT_LE(lines_of_first_curve(page), 12 * 16 - 1);
}

TEST_F(TrainRecoveryTest, AReportSaysThatARunWasStopped) {
  const auto report = path("report.html");
  const auto command =
      longer(train("stopped", fmt::format("--checkpoint-dir {} --resume=auto --report {}",
                                          path("points"), report)));
  auto process = start(command);
  ASSERT_TRUE(process.wait_for("[Epoch 01]"));
  process.signal(SIGTERM);
  const auto stopped = process.wait(kTrainingLimit);
  ASSERT_EQ(stopped.exit_code, 75) << stopped.out << stopped.err;
  auto page = read_file(report);
  for (const auto* part : {"The run stopped early.", "; wrote a checkpoint", "(exit code 75)",
                           "--resume", " of 12, ", "<td>checkpoint</td>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, ::testing::Not(HasSubstr("digest of the weights")));

  const auto finished = start(command).wait(kTrainingLimit);
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  page = read_file(report);
  EXPECT_THAT(page, HasSubstr("The run finished."));
  EXPECT_THAT(page, HasSubstr("<tr><th scope=\"row\">resumed</th><td>after step "));
  EXPECT_THAT(page, HasSubstr(printed_digest(finished)));
}

TEST_F(TrainRecoveryTest, AProgramOfTheUsersOwnRecoversTheSameWay) {
  if (!has_fashion_mnist()) GTEST_SKIP() << "Debian's dataset-fashion-mnist is not installed";
  const auto program =
      (std::filesystem::path(LOCKSTEP_BINARY).parent_path() / "train_model").string();
  const auto command = [&](const std::string& name) {
    return words(
        fmt::format("{} run --num-replicas 4 --num-instances 4 --max-restarts 3 --log-dir "
                    "{} --cache-path {} {} 2 2048",
                    LOCKSTEP_BINARY, path(name), path("cache"), program));
  };
  const auto digest = [](const Finished& finished) {
    const auto found = digest_in(finished.out);
    return found.empty() ? finished.err : found;
  };
  const auto expected = start(command("calm")).wait(kTrainingLimit);
  ASSERT_EQ(expected.exit_code, 0) << expected.err;
  auto process = start(command("killed"));
  const auto pids = instances("killed");
  ASSERT_TRUE(process.wait_for("[Epoch 01]", 60s));
  ::kill(pids[2], SIGKILL);
  const auto finished = process.wait(kTrainingLimit);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(digest(finished), digest(expected));
  EXPECT_EQ(events("killed", "restart").size(), 1U);
  EXPECT_EQ(events("killed", "resume").size(), 1U);
}

TEST_F(TrainRecoveryTest, ThreadsPerDeviceAreThoseOfTheCheckpoint) {
  const std::string options =
      "--model mlp --dataset synthetic --size 64 --image-size 8x8x1 --batch-size 4 --epochs 2 "
      "--checkpoint-dir " +
      path("checkpoints");
  ASSERT_EQ(lockstep(words("train " + options + " --threads-per-device 1")).exit_code, 0);
  const auto resumed = lockstep(words("train " + options + " --resume"));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("(R=1 T=1)"));
  const auto other = lockstep(words("train " + options + " --resume --threads-per-device 2"));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("threads-per-device was 1, is 2"));
}

TEST_F(TrainRecoveryTest, AFolderInUseIsRefusedBeforeAnythingIsLoaded) {
  const std::string options =
      "train --model mlp --dataset synthetic --size 64 --image-size 8x8x1 --batch-size 4 "
      "--epochs 1 --checkpoint-dir " +
      path("checkpoints");
  ASSERT_EQ(lockstep(words(options)).exit_code, 0);
  // Without lockstep-train beside it, the launcher can load neither libtorch nor data.
  std::filesystem::create_directory(path("alone"));
  const auto launcher = path("alone/lockstep");
  std::filesystem::copy_file(LOCKSTEP_BINARY, launcher);
  const auto again = run(words(launcher + " " + options));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(
      again.err,
      HasSubstr("train: --checkpoint-dir: expected a folder without checkpoints, found 1 in"));
  const auto elsewhere = run(words(launcher + " " + options + "-2"));
  EXPECT_EQ(elsewhere.exit_code, 4);
  EXPECT_THAT(elsewhere.err, HasSubstr("lockstep-train: expected beside this program"));
}

}  // namespace
}  // namespace lockstep::testing
