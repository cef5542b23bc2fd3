#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

/// Minutes, so it is outside `make test`: `make test-slow` runs it.
TEST(TrainAccuracyTest, LearnsFashionMnistInThreeEpochsOverTwoInstances) {
  if (!has_fashion_mnist()) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const ScratchFolder folder;
  const auto file = folder.path() + "/summary.json";
  Subprocess training(lockstep_command(words(
      "train --model resnet20 --dataset fashion-mnist --epochs 3 --eval-every 0 "
      "--replicas 2 --num-instances 2 --batch-size 64 --lr 0.1 --nesterov --weight-decay 5e-4 "
      "--schedule cosine --warmup-epochs 0.2 --summary " +
      file)));
  const auto finished = training.wait(40min);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  std::cout << finished.out;
  const auto summary = nlohmann::json::parse(read_file(file));
  EXPECT_GE(summary.at("test_accuracy").get<double>(), 89);
  EXPECT_EQ(summary.at("weights"), printed_digest(finished));
}

}  // namespace
}  // namespace lockstep::testing
