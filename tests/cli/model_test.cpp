#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(
      shown.out,
      AllOf(HasSubstr("parameters     269722\n"), HasSubstr("multiply-adds  40551040 per image\n"),
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

struct BadModelCall {
  std::vector<std::string> arguments;
  int exit_code;
  const char* message;
};

TEST(ModelCommandTest, SaysWhatIsWrong) {
  const ScratchFolder folder;
  const std::vector<BadModelCall> all{
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

TEST(ModelCommandTest, TakesOneThatEvaluatesToSomethingElse) {
  const auto shown =
      lockstep({"model", "--model", fixture("other_when_evaluating.pt"), "--image-size", "2x2"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("classes        4\n"));
}

}  // namespace
}  // namespace lockstep::testing
