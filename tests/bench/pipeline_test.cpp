#include "bench/train/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/plan/plan_json.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::bench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::lockstep;

TEST(BenchPipelineCommandTest, MeasuresEachScheduleAndWritesJson) {
  const testing::ScratchFolder folder;
  const auto file = folder.path() + "/pipeline.json";
  const auto result = lockstep({"bench", "pipeline", "--model", "resnet20", "--image-size", "8x8",
                                "--batch-size", "2", "--gradient-accumulation", "2", "--steps", "2",
                                "--rounds", "1", "--json", file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("train resnet20, 8x8, batch 2, accumulation 2, 2 devices x 1 thread"),
                    ContainsRegex("\nwhole +[0-9.]+ +[0-9.]+ +- +- +[0-9.]+ %\n"),
                    ContainsRegex("\nsequential +[0-9.]+ +1.00 +1.00 +1.00 +[0-9.]+ %\n"),
                    ContainsRegex("\ngpipe +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ %\n"),
                    ContainsRegex("\n1f1b +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ %\n"),
                    ContainsRegex("\nstage 0, stem.*: forward [0-9.]+ ms, backward [0-9.]+ ms\n"),
                    ContainsRegex("\nstage 1, .*\\.\\.head: forward ")));

  const auto json = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(json.at("bench"), "pipeline");
  EXPECT_TRUE(json.contains("host") && json.contains("commit"));
  ASSERT_EQ(json.at("rows").size(), 4U);
  for (const auto& row : json.at("rows")) {
    EXPECT_EQ(row.at("rounds"), 1);
    EXPECT_GT(row.at("images_per_second"), 0);
    EXPECT_GE(row.at("idle_share"), 0);
    EXPECT_EQ(row.contains("allowed"), row.at("system") != "whole");
  }
  const auto& last = json.at("rows")[3];
  EXPECT_EQ(last.at("system"), "1f1b");
  // What is read from the stages here is what the plan itself says.
  const auto& plan = json.at("plan");
  EXPECT_NEAR(last.at("allowed"),
              plan.at("sequential_s").get<double>() / plan.at("step_s").get<double>(), 1e-9);
  EXPECT_NEAR(last.at("share_of_allowed"),
              last.at("times_sequential").get<double>() / last.at("allowed").get<double>(), 1e-9);
  ASSERT_EQ(json.at("stages").size(), 2U);
  EXPECT_GT(json.at("stages")[1].at("backward_s"), 0);
}

struct BadOption {
  std::vector<std::string> words;
  const char* message;
};

TEST(BenchPipelineCommandTest, RefusesWhatItCannotMeasure) {
  const BadOption bad[] = {
      {{"--model", "resnet51"}, "bench pipeline: --model: expected one of mlp, convnet, "},
      {{"--image-size", "8x"},
       "lockstep: bench pipeline: --image-size: expected HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS, "
       "each from 1 to 65536, found '8x'\n  try: --image-size 32x32x3\n"},
      {{"--devices-per-replica", "1"}, "bench pipeline: --devices-per-replica: "},
      {{"--batch-size", "0"}, "bench pipeline: --batch-size: "},
      {{"--gradient-accumulation", "0"}, "bench pipeline: --gradient-accumulation: "},
      {{"--steps", "1"}, "bench pipeline: --steps: "},
      {{"--rounds", "0"}, "bench pipeline: --rounds: "},
      {{"--roundz", "3"}, "lockstep: bench pipeline: unknown option '--roundz'\n  try: --rounds\n"},
  };
  for (const auto& [words, message] : bad) {
    std::vector<std::string> command{"bench", "pipeline"};
    command.insert(command.end(), words.begin(), words.end());
    const auto result = lockstep(command);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, AllOf(HasSubstr(message), HasSubstr("\n  try: ")));
    EXPECT_EQ(result.out, "");
  }
}

TEST(BenchPipelineCommandTest, ShowsWhatAFailedJobSaysAboutItself) {
  const auto result =
      lockstep({"bench", "pipeline", "--model", "mlp", "--devices-per-replica", "9"});
  EXPECT_EQ(result.exit_code, exit_code(ErrorKind::Io));
  EXPECT_THAT(result.err, AllOf(HasSubstr("lockstep: stages: expected 1 to 3, "),
                                HasSubstr("lockstep plan --model mlp "),
                                HasSubstr("--devices-per-replica 9 "), HasSubstr("' failed\n")));
}

/// Stands in for `lockstep`. A step takes 0.4 s; one stage at a time 0.5 s, with gpipe 0.3 s, with
/// 1f1b 0.25 s.
constexpr const char* kDouble = R"(#!/bin/sh
here="${0%/*}"
echo "$*" >> "$here/calls"
for last; do :; done
case "$*" in
  plan*) cp "$here/plan.json" "$last"; exit;;
  *sequential*) end=3.5; idle=0.5;;
  *gpipe*) end=2.1; idle=0.2;;
  *1f1b*) end=1.75; idle=0.1;;
  *) end=2.8; idle=0.01;;
esac
weights=00ff
case "$*" in *gpipe*) if [ -e "$here/wrong" ]; then weights=0bad; fi;; esac
first=$(($(date +%s) + 2))
int=${end%.*}
echo "{\"optimizer_steps\": 8, \"first_step_unix_s\": $first.0, \"train_loss\": 9," \
     "\"last_step_unix_s\": $((first + int)).${end#*.}, \"weights\": \"$weights\"," \
     "\"time\": {\"data\": 0, \"idle\": $idle}}" > "$last"
)";

/// Two stages of 3 ms and 6 ms: with G=4, one at a time takes 36 ms; 1f1b and gpipe as long as the
/// second stage with four micro-batches, and the first stage with one: 27 ms.
plan::Plan small_plan() {
  plan::Plan plan{.model = "resnet50", .micro_batches = 4};
  plan.profile.blocks.resize(3);
  plan.stages = {{.first_block = 0,
                  .num_blocks = 2,
                  .begins_with = "stem",
                  .ends_with = "layer1.0",
                  .forward_s = 0.001,
                  .backward_s = 0.002},
                 {.first_block = 2,
                  .num_blocks = 1,
                  .begins_with = "layer1.1",
                  .ends_with = "layer1.1",
                  .forward_s = 0.002,
                  .backward_s = 0.004}};
  plan.sequential_s = 0.036;
  plan.instances = {
      {.devices = {{.device = 0, .stages = {{0, 0}}}, {.device = 1, .stages = {{0, 1}}}}}};
  return plan;
}

class BenchPipelineTest : public ::testing::Test {
 protected:
  BenchPipelineTest() { folder_.write("plan.json", plan::to_json(small_plan())); }

  PipelineReport measure(int rounds = 1) const {
    return measure_pipeline({.gradient_accumulation = 4, .rounds = rounds}, program_,
                            topology::Environment::of_this_process());
  }

  testing::ScratchFolder folder_;
  std::string program_ = folder_.write("lockstep", kDouble, 0755);
};

TEST_F(BenchPipelineTest, ComparesWhatIsReachedWithWhatTheStagesAllow) {
  const auto report = measure();
  EXPECT_EQ(report.to_table(),
            "train resnet50, 32x32, batch 8, accumulation 4, 2 devices x 1 thread\n"
            "\n"
            "schedule    images/s  times sequential  allowed by the stages  of that  idle\n"
            "whole       80.0      1.25              -                      -        1.0 %\n"
            "sequential  64.0      1.00              1.00                   1.00     50.0 %\n"
            "gpipe       106.7     1.67              1.33                   1.25     20.0 %\n"
            "1f1b        128.0     2.00              1.33                   1.50     10.0 %\n"
            "\n"
            "stage 0, stem..layer1.0: forward 1.00 ms, backward 2.00 ms\n"
            "stage 1, layer1.1: forward 2.00 ms, backward 4.00 ms\n");
}

TEST_F(BenchPipelineTest, RunsJobsInTurnWithTheStagesOfOnePlan) {
  EXPECT_EQ(measure(2).rows.front().timing.rounds, 2);
  const auto calls = read_file(folder_.path() + "/calls");
  EXPECT_THAT(
      calls,
      AllOf(HasSubstr("plan --model resnet50 --dataset synthetic --size 256 --image-size 32x32 "
                      "--augment none --batch-size 8 --gradient-accumulation 4 "
                      "--threads-per-device 1 --lr 0.01 --cache-path "),
            HasSubstr(" --devices-per-replica 2 --pipeline gpipe --split layer1.1 --epochs 1 "
                      "--eval-every 0 --limit-test 8 --summary ")));
  std::string order;
  for (std::size_t at = 0; at < calls.size(); at = calls.find('\n', at) + 1) {
    const auto line = calls.substr(at, calls.find('\n', at) - at);
    const auto schedule = line.find("--pipeline ");
    order += line[0];
    order += schedule == std::string::npos ? 'w' : line[schedule + 11];
  }
  EXPECT_EQ(order, "p1twtstgt1twtstgt1");
}

TEST_F(BenchPipelineTest, RefusesASpeedThatChangesTheWeights) {
  folder_.write("wrong", "");
  expect_error([&] { measure(); }, ErrorKind::Bug,
               "bench pipeline: expected all jobs to end with the same weights, found whole with "
               "00ff, sequential with 00ff, gpipe with 0bad, 1f1b with 00ff");
}

}  // namespace
}  // namespace lockstep::bench
