#include <fmt/format.h>

#include <future>

#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Trainings of a small network, whose replicas are cut into stages.
class TrainPipelineTest : public TrainRunsTest {
 protected:
  Words train(const std::string& more) const {
    return words(
        fmt::format("{} train --model resnet20 --dataset synthetic --size 96 --image-size "
                    "8x8 --batch-size 2 --gradient-accumulation 4 --replicas 3 --epochs 1 "
                    "--limit-test 8 --threads-per-device 1 --cache-path {} {}",
                    LOCKSTEP_BINARY, path("cache"), more));
  }
};

TEST_F(TrainPipelineTest, GivesTheSameBitsWhateverStagesScheduleAndInstances) {
  const auto whole = record("whole", train(""));
  for (const auto* more : {
           "--devices-per-replica 2",
           "--devices-per-replica 2 --pipeline gpipe --num-instances 2",
           "--split layer1.1,layer3.0 --pipeline sequential --recompute",
           "--devices-per-replica 4 --num-instances 3 --recompute=blocks",
           "--recompute=blocks --num-instances 2",
       }) {
    const auto name = "other";
    const auto summary = record(name, train(more));
    EXPECT_EQ(summary.at("weights"), whole.at("weights")) << more;
    std::filesystem::remove_all(path(name));
  }
}

TEST_F(TrainPipelineTest, SaysCachedWhenItStartsAgain) {
  const auto command = train("--devices-per-replica 2");
  const auto first = run(command);
  EXPECT_THAT(first.out, HasSubstr(", plan made]")) << first.err;
  const auto second = run(command);
  EXPECT_THAT(second.out, HasSubstr(", plan cached]")) << second.err;
  EXPECT_EQ(printed_digest(first), printed_digest(second));
}

TEST_F(TrainPipelineTest, FindsWhatPlanHasKeptForIt) {
  for (const auto* more : {"--num-instances 3", "--devices-per-replica 2 --num-instances 2",
                           "--devices-per-replica 2"}) {
    auto command = train(more);
    command[1] = "plan";
    const auto planned = run(command);
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    EXPECT_THAT(run(train(more)).out, HasSubstr(", plan cached]")) << more;
  }
}

TEST_F(TrainPipelineTest, MeasuresOnceForAllWhoStartTogether) {
  std::vector<std::future<Finished>> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(
        std::async(std::launch::async, [&] { return run(train("--devices-per-replica 2")); }));
  }
  int made = 0;
  for (auto& job : jobs) {
    const auto finished = job.get();
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    if (finished.out.find(", plan made]") != std::string::npos) ++made;
  }
  EXPECT_EQ(made, 1);
}

TEST_F(TrainPipelineTest, ShowsTheBarOfOneInstance) {
  const auto finished = run(train("--num-instances 2"));
  EXPECT_THAT(finished.out, HasSubstr("[0] [Prepare]"));
  EXPECT_THAT(finished.out, Not(HasSubstr("[1] [Prepare]")));
}

TEST_F(TrainPipelineTest, NamesTheBlocksForAWrongOneInAJobToo) {
  for (const auto* more : {"--split layer3.8", "--split layer3.8 --num-instances 2"}) {
    const auto finished = run(train(more));
    EXPECT_EQ(finished.exit_code, 2) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("layer3.8"));
    EXPECT_THAT(finished.err, HasSubstr("layer3.2"));
  }
}

TEST_F(TrainPipelineTest, IgnoresADamagedPlanWithAWord) {
  const auto command = train("--devices-per-replica 2");
  run(command);
  for (const auto& entry : std::filesystem::directory_iterator(path("cache") + "/plans")) {
    std::filesystem::resize_file(entry.path(), 100);
  }
  const auto again = run(command);
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr("made anew: damaged"));
  EXPECT_THAT(again.out, HasSubstr(", plan made]"));
  EXPECT_THAT(run(command).out, HasSubstr(", plan cached]"));
}

}  // namespace
}  // namespace lockstep::testing
