#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/weights/weight_file.h"
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

TEST(ModelCommandTest, ShowsBlocksSizeAndDigest) {
  const auto shown = lockstep({"model", "--model", "resnet20", "--seed", "2022"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("parameters     269722\n"),
                    HasSubstr("multiply-adds  40551040 for a picture\n"),
                    HasSubstr("stem      [16, 32, 32]\n"), HasSubstr("layer3.2  [64, 8, 8]\n"),
                    HasSubstr("head      [10]\n"), HasSubstr("weights: eb7a900b26567041\n")));
}

TEST(ModelCommandTest, ExportsWeightsAndTakesThemBack) {
  const ScratchFolder folder;
  for (const auto* name : {"/w.safetensors", "/w.pt"}) {
    const auto file = folder.path() + name;
    const auto written = lockstep({"model", "--model", "convnet", "--classes", "5", "--image-size",
                                   "28x28x1", "--seed", "3", "--export", file});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    const auto digest = "weights: " + weights::read_weights(file).digest();
    EXPECT_THAT(written.out, HasSubstr(digest));
    const auto read = lockstep({"model", "--model", "convnet", "--classes", "5", "--image-size",
                                "28x28x1", "--init-from", file});
    EXPECT_THAT(read.out, HasSubstr(digest)) << read.err;
  }
}

TEST(ModelCommandTest, TakesATorchScriptFile) {
  const auto shown = lockstep({"model", "--model", fixture("scripted.pt"), "--image-size", "6x6"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("classes        4\n"), HasSubstr("model  [4]\n")));
}

struct Bad {
  std::vector<std::string> arguments;
  int exit_code;
  const char* message;
};

TEST(ModelCommandTest, SaysWhatIsWrong) {
  const ScratchFolder folder;
  const std::vector<Bad> all{
      {{"--model", "resnet21"}, 2, "model: there is no 'resnet21'"},
      {{"--model", "convnet", "--image-size", "3x9"}, 2, "at least 4 x 4, found [3, 3, 9]"},
      {{"--image-size", "0x9"}, 2, "--image-size: expected HEIGHTxWIDTH"},
      {{"--classes", "0"}, 2, "--classes"},
      {{"--seed", "-1"}, 2, "expected a whole number from 0 on"},
      {{"--image-size", "1000000x1000000"}, 2, "each from 1 to 65536"},
      {{"--image-size", "65536x65536x4096"}, 4, "not enough memory"},
      {{"--model", "nowhere.pt"}, 5, "there is no file 'nowhere.pt'"},
      {{"--model", fixture("frozen.pt")}, 3, "no parameters that could be trained"},
      {{"--model", fixture("weights.pt")}, 3, "weights alone go to --init-from"},
      {{"--model", fixture("bound.pt"), "--image-size", "2x2"}, 2, "use torch.jit.script"},
      {{"--init-from", fixture("weights.pt")}, 3, "missing"},
      {{"--init-from", fixture("scripted.pt")}, 3, "TorchScript"},
      {{"--init-from", "nowhere.safetensors"}, 5, "nowhere.safetensors"},
      {{"--export", folder.path() + "/weights.onnx"}, 2, ".safetensors"},
      {{"--export", folder.path() + "/no/such/folder.pt"}, 5, "no/such/folder.pt"},
  };
  for (const auto& bad : all) {
    auto arguments = bad.arguments;
    arguments.insert(arguments.begin(), "model");
    const auto result = lockstep(arguments);
    EXPECT_EQ(result.exit_code, bad.exit_code) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(bad.message), Not(HasSubstr("frame #"))));
    EXPECT_EQ(result.out, "") << bad.message;
  }
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

TEST(ModelCommandTest, TakesOneThatEvaluatesToSomethingElse) {
  const auto shown =
      lockstep({"model", "--model", fixture("other_when_evaluating.pt"), "--image-size", "2x2"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("classes        4\n"));
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
