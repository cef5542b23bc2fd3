#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/subprocess.h"

// The programs of examples/ that need no libtorch, and are not run by other tests.

namespace lockstep::testing {
namespace {

std::string example(const std::string& name) {
  return (std::filesystem::path(LOCKSTEP_BINARY).parent_path() / name).string();
}

std::string output_of(const Finished& finished) {
  EXPECT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  return finished.out;
}

TEST(ExamplesTest, MeanLossAveragesOverInstances) {
  EXPECT_EQ(output_of(run({example("mean_loss")})), "mean loss over 1 instances: 0.5\n");
  EXPECT_EQ(output_of(lockstep({"run", "--num-instances", "4", example("mean_loss")})),
            "[0] mean loss over 4 instances: 2\n");
}

TEST(ExamplesTest, GroupedAllReduceAveragesSeveralValuesAtOnce) {
  EXPECT_EQ(output_of(run({example("grouped_all_reduce")})),
            "over 1 instances: loss 1, accuracy 50, gradients 0\n");
  EXPECT_EQ(output_of(lockstep({"run", "--num-instances", "4", example("grouped_all_reduce")})),
            "[0] over 4 instances: loss 2.5, accuracy 35, gradients 1.5\n");
}

TEST(ExamplesTest, LoadInStepsHasTheCountsOfTheTutorial) {
  EXPECT_EQ(output_of(run({example("load_in_steps")})),
            "alone: instance 0 reads 1562 batches of 32, 49984 of 50000 samples\n"
            "by instance: instance 0 reads 1562 batches of 32, 49984 of 50000 samples\n"
            "by replica: instance 0 reads 1562 batches of 32, 49984 of 50000 samples\n");
  const auto lines = sorted_lines(output_of(
      lockstep({"run", "--num-replicas", "8", "--num-instances", "4", example("load_in_steps")})));
  for (const std::string i : {"0", "1", "2", "3"}) {
    const auto line = [&](const std::string& how, const std::string& found) {
      return "[" + i + "] " + how + ": instance " + i + " reads " + found + " of 50000 samples\n";
    };
    EXPECT_THAT(lines, ::testing::HasSubstr(line("alone", "1562 batches of 32, 49984") +
                                            line("by instance", "390 batches of 32, 12480") +
                                            line("by replica", "195 batches of 64, 12480")));
  }
}

}  // namespace
}  // namespace lockstep::testing
