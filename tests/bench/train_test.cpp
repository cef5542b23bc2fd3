#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string fixture(const std::string& name) {
  return std::string(FIXTURES) + "/" + name;
}

TEST(BenchTrainTest, MeasuresBesideLibtorch) {
  const ScratchFolder folder;
  const auto json_file = folder.path() + "/train.json";
  const auto result = lockstep({"bench", "train", "--model", "convnet", "--image-size", "8x8",
                                "--batch-size", "4", "--instances", "1", "--threads-per-device",
                                "1,2", "--rounds", "2", "--json", json_file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("images/s"), HasSubstr("of sgemm"),
                    HasSubstr("train convnet, batch 4, 1 thread "),
                    HasSubstr("train convnet, batch 4, 2 threads"), HasSubstr("libtorch")));
  const auto rows = nlohmann::json::parse(read_file(json_file)).at("rows");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_GT(rows.at(0).at("peak_share").get<double>(), 0);
  EXPECT_GT(rows.at(1).at("ratio").get<double>(), 0);
}

TEST(BenchTrainTest, MeasuresATorchScriptFileAlone) {
  const auto result =
      lockstep({"bench", "train", "--model", fixture("scripted.pt"), "--image-size", "6x6",
                "--batch-size", "4", "--threads-per-device", "1", "--rounds", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("libtorch")));
}

TEST(BenchTrainTest, TakesWeightsAndTheBatchThatATraceIsBoundTo) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/w.pt";
  EXPECT_EQ(lockstep({"model", "--model", "convnet", "--seed", "5", "--export", file}).exit_code,
            0);
  const auto loaded = lockstep({"bench", "train", "--model", "convnet", "--init-from", file,
                                "--batch-size", "2", "--threads-per-device", "1", "--rounds", "1"});
  EXPECT_EQ(loaded.exit_code, 0) << loaded.err;
  const auto bound =
      lockstep({"bench", "train", "--model", fixture("bound.pt"), "--image-size", "2x2",
                "--batch-size", "4", "--threads-per-device", "1", "--rounds", "1"});
  EXPECT_EQ(bound.exit_code, 0) << bound.err;
}

struct BadBench {
  std::vector<std::string> options;
  const char* message;
};

TEST(BenchTrainTest, RefusesOptionsThatItsPeerDoesNotTake) {
  const BadBench cases[] = {
      {{"--instances", "2"}, "expected --instances 1 with --against none, found 2"},
      {{"--against", "jax"}, "bench train: --against: expected one of torch, none, found 'jax'"},
      {{"--against", "torch", "--model", "convnet"},
       "expected no --model with --against torch, found one\n  try: --against none, or leave"},
      {{"--steps", "50"}, "expected no --steps with --against none, found one"},
      {{"--against", "torch", "--work", "trian"},
       "bench train: --work: expected one of train, update, found 'trian'"},
  };
  for (const auto& bad : cases) {
    std::vector<std::string> arguments{"bench", "train"};
    arguments.insert(arguments.end(), bad.options.begin(), bad.options.end());
    const auto result = lockstep(arguments);
    EXPECT_EQ(result.exit_code, 2) << bad.message;
    EXPECT_THAT(result.err, HasSubstr(bad.message));
  }
}

}  // namespace
}  // namespace lockstep::testing
