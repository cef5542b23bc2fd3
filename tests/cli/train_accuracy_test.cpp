#include "lockstep/gpu/devices.h"
#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

// Minutes, so they are outside `make test`: `make test-slow` runs them, and `make test-gpu-slow` on
// a GPU.

/// In per cent, of a training that also prints its digest.
double accuracy_after(const std::string& options) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/summary.json";
  Subprocess training(
      lockstep_command(words("train --dataset fashion-mnist --nesterov --lr 0.1 "
                             "--weight-decay 5e-4 --schedule cosine --summary " +
                             file + " " + options)));
  const auto finished = training.wait(40min);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  std::cout << finished.out;
  const auto summary = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(summary.at("weights"), printed_digest(finished));
  return summary.at("test_accuracy").get<double>();
}

TEST(TrainAccuracyTest, LearnsFashionMnistInThreeEpochsOverTwoInstances) {
  if (!has_fashion_mnist()) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  EXPECT_GE(accuracy_after("--device cpu --model resnet20 --epochs 3 --eval-every 0 --replicas 2 "
                           "--num-instances 2 --batch-size 64 --warmup-epochs 0.2"),
            89);
}

TEST(TrainAccuracyTest, LearnsFashionMnistIn16BitsOnAGpu) {
  if (gpu::count_devices() == 0) GTEST_SKIP() << "there is no GPU here";
  if (!has_fashion_mnist()) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  EXPECT_GE(accuracy_after("--device cuda --model resnet18 --image-size 64x64 --epochs 20 "
                           "--replicas 4 --batch-size 64 --device-iterations 4 --precision 16.16 "
                           "--eight-bit-io --warmup-epochs 1 --label-smoothing 0.1"),
            93.5);
}

}  // namespace
}  // namespace lockstep::testing
