#include <gmock/gmock.h>
#include <signal.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/cli/train_runs.h"
#include "tests/monitor/trace_format.h"
#include "tests/support/fake_hosts.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

/// Trains until it is told to stop.
constexpr const char* kEndless =
    "train --dataset synthetic --size 300 --image-size 16x16x3 --limit-test 50 --batch-size 4 "
    "--model mlp --epochs 100000 --eval-every 0 --lr 0.001 ";

/// Trainings whose folders lie apart from those of other tests.
class WatchedTrainingTest : public TrainRunsTest {
 protected:
  SubprocessOptions here() const {
    return {.environment = {{"TMPDIR", folder_.path()}, {"XDG_RUNTIME_DIR", ""}}};
  }
  Json jobs() const { return Json::parse(lockstep({"monitor", "--json"}, here()).out).at("jobs"); }
  /// The job, once all of its instances have made a step.
  Json training(std::size_t instances) const {
    Json found;
    const auto is_training = [&] {
      const auto all = jobs();
      if (all.empty() || all[0].at("instances").size() != instances) return false;
      found = all[0];
      for (const auto& instance : found.at("instances")) {
        if (instance.at("step").is_null() || instance.at("step") == 0) return false;
      }
      return true;
    };
    EXPECT_TRUE(eventually(is_training, 60s)) << jobs();
    return found;
  }
};

TEST_F(WatchedTrainingTest, ShowsWhatEachInstanceOfAJobDoes) {
  Subprocess job(lockstep_command(words(std::string(kEndless) + "--replicas 4 --num-instances 2")),
                 here());
  const auto before = training(2);
  for (int i = 0; i < 2; ++i) {
    const auto& instance = before["instances"][static_cast<std::size_t>(i)];
    EXPECT_EQ(instance["instance"], i);
    EXPECT_EQ(instance["health"], "running");
    EXPECT_EQ(instance["phase"], "training");
    EXPECT_EQ(instance["first_replica"], 2 * i);
    EXPECT_EQ(instance["local_replicas"], 2);
    EXPECT_EQ(instance["steps_of_epoch"], 300 / 16);
    EXPECT_GT(instance["loss"], 0);
    EXPECT_GT(instance["seconds"]["compute"], 0);
    EXPECT_GT(instance["collectives"], 0);
    EXPECT_THAT(instance["collective"].get<std::string>(), HasSubstr("weights"));
  }
  EXPECT_TRUE(eventually(
      [&] { return training(2)["instances"][1]["samples"] > before["instances"][1]["samples"]; },
      20s));
  const auto table = lockstep({"monitor"}, here());
  EXPECT_THAT(table.out, HasSubstr("1 job, 2 processes"));
  EXPECT_THAT(table.out, HasSubstr("training"));
  job.signal(SIGTERM);
  job.wait();
  EXPECT_TRUE(jobs().empty());
}

TEST_F(WatchedTrainingTest, ShowsAllReplicasOfAProcessThatIsAlone) {
  Subprocess job(lockstep_command(words(std::string(kEndless) + "--replicas 3")), here());
  const auto instance = training(1)["instances"][0];
  EXPECT_EQ(instance["local_replicas"], 3);
  EXPECT_EQ(instance["num_replicas"], 3);
  job.signal(SIGKILL);
  job.wait();
  EXPECT_TRUE(jobs().empty()) << "what it left is removed by whoever looks next";
}

TEST_F(WatchedTrainingTest, ShowsAProgramThatUsesTheLibrary) {
  if (!has_fashion_mnist()) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto program =
      (std::filesystem::path(LOCKSTEP_BINARY).parent_path() / "train_model").string();
  Subprocess job({program, "1000", "1024"}, here());
  const auto instance = training(1)["instances"][0];
  EXPECT_EQ(instance["local_replicas"], 4);
  EXPECT_EQ(instance["pid"], job.pid());
  EXPECT_EQ(instance["phase"], "training");
  job.signal(SIGKILL);
  job.wait();
}

TEST_F(WatchedTrainingTest, TracesAllInstancesOnOneClock) {
  const auto traced = lockstep(
      words("train --dataset synthetic --size 256 --image-size 16x16x3 --limit-test 8 --model mlp "
            "--epochs 1 --batch-size 8 --replicas 2 --num-instances 2 --num-workers 1 --trace " +
            path("trace.json")),
      here());
  EXPECT_EQ(traced.exit_code, 0) << traced.err;
  const auto trace = Json::parse(read_file(path("trace.json")));
  expect_format(trace);
  std::map<int, std::set<std::string>> kinds;
  std::map<int, std::pair<double, double>> times;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const int instance = event.at("pid");
    const double begin = event.at("ts");
    kinds[instance].insert(event.at("name"));
    const auto [known, is_new] = times.try_emplace(instance, begin, begin);
    if (!is_new) known->second.second = begin;
    EXPECT_LE(event.at("args").at("step"), 16 + 8) << "a loader is ahead by its buffers";
  }
  ASSERT_EQ(kinds.size(), 2U);
  for (const auto& [instance, found] : kinds) {
    EXPECT_THAT(found, ::testing::IsSupersetOf(
                           {"load", "forward", "backward", "reduce", "update", "wait"}));
  }
  // Both trained at the same time: neither began after the other had ended.
  EXPECT_LT(times[0].first, times[1].second);
  EXPECT_LT(times[1].first, times[0].second);
}

TEST_F(WatchedTrainingTest, TracesSeveralHostsOnTheClockOfTheFirst) {
  const FakeHosts hosts;
  hosts.give_own_folder("x1");
  hosts.give_own_folder("x2");
  const auto traced = hosts.lockstep(
      words("train --launcher ssh --host x1,x2 --num-instances 2 --dataset synthetic --size 256 "
            "--image-size 16x16x3 --limit-test 8 --model mlp --epochs 1 --batch-size 8 "
            "--replicas 2 --trace " +
            path("trace.json")));
  EXPECT_EQ(traced.exit_code, 0) << traced.err;
  const auto trace = Json::parse(read_file(path("trace.json")));
  expect_format(trace);
  std::set<int> instances;
  for (const auto& event : trace.at("traceEvents")) instances.insert(event.at("pid").get<int>());
  EXPECT_EQ(instances, (std::set{0, 1}));
  // Both hosts are this machine, so their clocks are equal. The measurement is as precise as
  // messages are fast. comm/clock_offset_test.cpp checks it with given clocks.
  const auto& clocks = trace.at("otherData").at("clocks");
  EXPECT_THAT(clocks.dump(), HasSubstr("measured"));
  for (const auto& clock : clocks) {
    EXPECT_LT(std::abs(clock.at("offset_ns").get<double>()), 1e9) << clocks;
  }
}

TEST_F(WatchedTrainingTest, TracesMoreWorkersThanMostMachinesHave) {
  const auto traced = lockstep(
      words("train --dataset synthetic --size 64 --image-size 8x8x3 --limit-test 8 --model mlp "
            "--epochs 1 --batch-size 8 --num-workers 70 --trace " +
            path("trace.json")),
      here());
  EXPECT_EQ(traced.exit_code, 0) << traced.err;
}

TEST_F(WatchedTrainingTest, EndsWellWithoutATraceThatCannotBeWritten) {
  std::filesystem::create_directory(path("gone"));
  Subprocess job(lockstep_command(words(
                     "train --dataset synthetic --size 4096 --image-size 16x16x3 "
                     "--limit-test 8 --model mlp --epochs 10 --batch-size 4 --lr 0.001 --trace " +
                     path("gone/trace.json") + " --summary " + path("summary.json"))),
                 here());
  // The folder must be gone before the last epoch ends.
  ASSERT_TRUE(job.wait_for("Epoch 01", 60s));
  std::filesystem::remove_all(path("gone"));
  const auto ended = job.wait(120s);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("there is no trace: "));
  EXPECT_EQ(Json::parse(read_file(path("summary.json"))).at("weights"), printed_digest(ended));
}

TEST_F(WatchedTrainingTest, WritesCurvesForTensorBoard) {
  if (!std::filesystem::exists("/usr/bin/python3")) GTEST_SKIP() << "python3 is not installed";
  const auto trained = lockstep(
      words("train --dataset synthetic --size 64 --image-size 8x8x3 --limit-test 8 --model mlp "
            "--epochs 2 --batch-size 8 --tensorboard " +
            path("curves")),
      here());
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  const auto file = std::filesystem::directory_iterator(path("curves"))->path().string();
  const auto read = run({"/usr/bin/python3", READ_TENSORBOARD_SCRIPT, "own", file});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  for (const auto* curve : {"train/loss", "train/acc", "epoch/loss", "test/acc"}) {
    EXPECT_THAT(read.out, HasSubstr(curve));
  }
}

TEST_F(WatchedTrainingTest, TheSameBitsComeOutWhoeverLooks) {
  const std::string options =
      "--dataset synthetic --size 128 --image-size 16x16x3 --limit-test 8 "
      "--model mlp --epochs 1 --batch-size 8 --replicas 2 ";
  record_train("unseen", options);
  record_train("seen", options + "--num-instances 2 --trace " + path("t.json") + " --tensorboard " +
                           path("curves"));
  expect_same("unseen", "seen");
}

TEST_F(WatchedTrainingTest, TrainsWhereNobodyCanSeeIt) {
  write_file(path("file"), "no folder");
  const auto blind = lockstep(words("train --dataset synthetic --size 64 --image-size 8x8x3 "
                                    "--limit-test 8 --model mlp --epochs 1 --batch-size 8"),
                              {.environment = {{"TMPDIR", path("file")}, {"XDG_RUNTIME_DIR", ""}}});
  EXPECT_EQ(blind.exit_code, 0) << blind.err;
  EXPECT_THAT(blind.err, HasSubstr("'lockstep monitor' will not show this training: "));
  printed_digest(blind);
}

}  // namespace
}  // namespace lockstep::testing
