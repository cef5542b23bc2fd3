#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "lockstep/gpu/devices.h"
#include "tests/cli/train_runs.h"

// Trainings on this machine's GPU, in real processes.

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class TrainOnGpuTest : public TrainRunsTest {
 protected:
  void SetUp() override {
    if (gpu::count_devices() == 0) GTEST_SKIP() << "there is no GPU here";
  }

  Words train(const std::string& name, int instances, const std::string& more) const {
    return words(fmt::format(
        "{0} run --num-replicas 4 --num-instances {1} --max-restarts 2 --cache-path {3} "
        "--log-dir {2}-job {0} train "
        "--device cuda --deterministic --model resnet20 --dataset synthetic --size 4096 "
        "--batch-size 16 --gradient-accumulation 2 --device-iterations 4 --epochs 20 "
        "--limit-test 64 --snapshot-every 2 --summary {2}.json {4}",
        LOCKSTEP_BINARY, instances, path(name), path("cache"), more));
  }

  std::string digest_of(const std::string& name) const {
    return summary_of(name).at("weights").get<std::string>();
  }

  std::vector<Json> events(const std::string& name, const std::string& kind) const {
    std::vector<Json> found;
    std::ifstream file(path(name) + "-job/events.jsonl");
    for (std::string line; std::getline(file, line);) {
      auto event = Json::parse(line, nullptr, false);
      if (event.is_object() && event.value("event", "") == kind) found.push_back(std::move(event));
    }
    return found;
  }

  void expect_the_same_after_a_kill(const std::string& calm, const std::string& name, int count,
                                    std::chrono::milliseconds after) {
    Subprocess process(train(name, count, ""), {});
    ASSERT_TRUE(eventually([&] { return std::ssize(events(name, "start")) >= count; }, 60s));
    std::this_thread::sleep_for(after);
    ::kill(events(name, "start").front().at("pid").get<pid_t>(), SIGKILL);
    const auto finished = process.wait(180s);
    ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    EXPECT_EQ(events(name, "restart").size(), 1U) << "it was over before the kill";
    EXPECT_EQ(digest_of(name), digest_of(calm)) << finished.err;
  }
};

TEST_F(TrainOnGpuTest, AKilledInstanceCostsNoBit) {
  for (const int count : {1, 2}) {
    const auto calm = fmt::format("calm-{}", count);
    const auto finished = run(train(calm, count, ""));
    ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    for (const int seconds : {6, 9}) {
      expect_the_same_after_a_kill(calm, fmt::format("killed-{}-{}", count, seconds), count,
                                   std::chrono::seconds(seconds));
    }
  }
  EXPECT_EQ(digest_of("calm-1"), digest_of("calm-2"));
}

TEST_F(TrainOnGpuTest, PlansSayWhatMemoryIsNeeded) {
  const auto finished = lockstep(
      words("plan --device cuda --model resnet20 --dataset synthetic --size 4096 --batch-size 16 "
            "--replicas 4 --cache-path " +
            path("cache")));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("on a GPU  state "));
}

/// Libraries must not choose algorithms by measurement: processes could choose different ones.
TEST_F(TrainOnGpuTest, AnEvaluationIsTheSameOnAnyNumberOfInstances) {
  const auto weights = path("w.safetensors");
  ASSERT_EQ(lockstep({"model", "--model", "resnet20", "--export", weights}).exit_code, 0);
  std::vector<Json> results;
  for (const int instances : {1, 3, 1}) {
    const auto file = path(fmt::format("eval-{}.json", results.size()));
    const auto finished = run(words(fmt::format(
        "{} eval --device cuda --model resnet20 --dataset synthetic --size 3001 --batch-size 64 "
        "--precision 16.16 --init-from {} --num-instances {} --json {}",
        LOCKSTEP_BINARY, weights, instances, file)));
    ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    results.push_back(Json::parse(read_file(file)));
    results.back().erase("run");
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace lockstep::testing
