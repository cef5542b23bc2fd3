#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/train_runs.h"

// The programs of examples/ that train. Each gives the same weights alone and as a job of as many
// replicas, but for own_loop, which knows of no others.

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class ExamplesWithTorchTest : public ::testing::Test {
 protected:
  static std::string example(const std::string& name) {
    return (std::filesystem::path(LOCKSTEP_BINARY).parent_path() / name).string();
  }

  /// What a command wrote. Plans are kept in a folder of the test's, not among the user's.
  std::string output_of(Words command) const {
    const auto finished = run(std::move(command), {.environment = {
                                                       {"LOCKSTEP_CACHE_PATH", folder_.path()},
                                                   }});
    EXPECT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    return finished.out;
  }

  std::string as_job(const Words& options, Words program) const {
    Words arguments{"run"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), program.begin(), program.end());
    return output_of(lockstep_command(std::move(arguments)));
  }

  static std::string digest_in(const std::string& output) {
    auto digest = testing::digest_in(output);
    EXPECT_NE(digest, "") << output;
    return digest;
  }

  /// The number behind the last occurrence of a text.
  static double last_number(const std::string& output, const std::string& behind) {
    const auto at = output.rfind(behind);
    if (at == std::string::npos) {
      ADD_FAILURE() << "no '" << behind << "' in:\n" << output;
      return 0;
    }
    return std::stod(output.substr(at + behind.size()));
  }

  const ScratchFolder folder_;
  const Words one_{"--num-replicas", "4"};
  const Words two_{"--num-replicas", "4", "--num-instances", "2"};
};

TEST_F(ExamplesWithTorchTest, OwnDataLearnsFromFieldsOfItsOwn) {
  const auto alone = output_of({example("own_data")});
  EXPECT_GT(last_number(alone, "accuracy "), 80) << alone;
  EXPECT_EQ(digest_in(as_job(one_, {example("own_data")})), digest_in(alone));
  EXPECT_EQ(digest_in(as_job(two_, {example("own_data")})), digest_in(alone));
}

TEST_F(ExamplesWithTorchTest, OwnModelLearnsWithALossOfItsOwn) {
  const auto alone = output_of({example("own_model")});
  EXPECT_LT(last_number(alone, "loss "), last_number(alone.substr(0, alone.find('\n')), "loss "));
  EXPECT_EQ(digest_in(as_job(two_, {example("own_model")})), digest_in(alone));
}

TEST_F(ExamplesWithTorchTest, ScriptModelTrainsWhatPythonSaved) {
  const auto file = std::string(FIXTURES) + "/scripted.pt";
  const auto weights = folder_.path() + "/weights.safetensors";
  const auto alone = output_of({example("script_model"), file, weights});
  EXPECT_LT(last_number(alone, "loss "), 1.4) << alone;
  EXPECT_TRUE(std::filesystem::exists(weights));
  for (const std::string instances : {"1", "2"}) {
    const auto job = as_job({"--num-replicas", "2", "--num-instances", instances},
                            {example("script_model"), file});
    EXPECT_EQ(digest_in(job), digest_in(alone)) << instances;
  }
  EXPECT_THAT(run({example("script_model")}).err,
              HasSubstr("expected a TorchScript file, found nothing\n  try: script_model net.pt"));
  EXPECT_EQ(run({example("script_model"), folder_.path() + "/none.pt"}).exit_code, 5);
}

TEST_F(ExamplesWithTorchTest, TwoStagesHaveTheBitsOfOne) {
  const auto whole = output_of({example("two_stages")});
  EXPECT_THAT(whole, HasSubstr("1 stages\n"));
  const auto cut = output_of({example("two_stages"), "hidden"});
  EXPECT_THAT(cut, HasSubstr("2 stages\n"));
  EXPECT_GT(last_number(cut, "accuracy "), 50) << cut;
  EXPECT_EQ(digest_in(cut), digest_in(whole));
  const auto job = as_job({"--num-replicas", "2", "--num-instances", "2", "--devices-per-replica",
                           "2", "--threads-per-device", "1"},
                          {example("two_stages"), "head"});
  EXPECT_EQ(digest_in(job), digest_in(whole));
}

TEST_F(ExamplesWithTorchTest, StrategiesFindTheLineAndTrainWithoutALoop) {
  const auto alone = output_of({example("strategies")});
  const auto one = as_job(one_, {example("strategies")});
  const auto two = as_job(two_, {example("strategies")});
  for (const auto& output : {alone, one, two}) {
    EXPECT_THAT(output, HasSubstr("own loop: 4 replicas, 3840 samples, loss 0.00000, y = 3.000x + "
                                  "-1.000\n"));
    EXPECT_THAT(output, HasSubstr("[Epoch 02] loss: "));
    EXPECT_THAT(output, HasSubstr("[Test  02] loss: "));
    EXPECT_EQ(digest_in(output), digest_in(alone));
  }
}

TEST_F(ExamplesWithTorchTest, OwnLoopTrainsOneReplica) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "Fashion-MNIST is not installed";
  }
  const auto output = output_of({example("own_loop"), "convnet", "50"});
  EXPECT_THAT(output, HasSubstr("step 50: loss "));
  EXPECT_FALSE(digest_in(output).empty());
}

}  // namespace
}  // namespace lockstep::testing
