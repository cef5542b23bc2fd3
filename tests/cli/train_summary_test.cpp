#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/cli/train_summary_text.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

train::TrainSummary some_summary() {
  return {.model = "resnet20",
          .dataset = "fashion-mnist",
          .replicas = 8,
          .instances = 4,
          .threads_per_device = 1,
          .batch_size = 64,
          .gradient_accumulation = 2,
          .device_iterations = 3,
          .epochs = 5,
          .optimizer_steps = 285,
          .samples = 291840,
          .resumed_at = 57,
          .precision = "16.32",
          .seed = 2022,
          .train_seconds = 243.25,
          .samples_per_second = 1199.75,
          .time_to_first_step_s = 1.5,
          .first_step_unix_s = 1000.5,
          .last_step_unix_s = 1243.75,
          .time = {.data = 0.0125, .compute = 0.8, .reduce = 0.125, .idle = 0.0625},
          .seconds = {{.data = 1.25, .compute = 80, .reduce = 12.5, .idle = 6.25}},
          .stages = {{.forward = 0.25, .backward = 0.75}},
          .memory = {.weights = 1572864, .optimizer = 3145728, .shared = 25165824},
          .private_bytes = 105381888,
          .checkpoints = {.taken = 4, .blocked_seconds = 0.0625, .writer_seconds = 0.5},
          .train_loss = 0.375,
          .train_metrics = {{"acc", 87.5}},
          .test_loss = 0.25,
          .test_metrics = {{"acc", 91.25}, {"top5", 99.5}},
          .weights = "0123456789abcdef"};
}

TEST(TrainSummaryTest, EndsWithTheDigestAndWhatItDependsOn) {
  EXPECT_EQ(cli::to_text(some_summary()),
            "test accuracy  91.25 %\n"
            "test loss      0.2500\n"
            "samples/s      1199.8\n"
            "time           1.2 % waiting for data, 80.0 % compute, 12.5 % reduction, 6.2 % idle\n"
            "bottleneck     reduction-bound: combining gradients and updating weights took 12 % of "
            "the time; try --gradient-accumulation 4\n"
            "memory         weights 1.5 MiB and optimizer 3.0 MiB, once for the host; 24.0 MiB "
            "shared in all, 100.5 MiB for an instance\n"
            "checkpoints    4: training waited 0.062 s for them, writing took 0.500 s of a CPU\n"
            "first step     after 1.50 s\n"
            "weights: 0123456789abcdef  (R=8 T=1)\n");
}

TEST(TrainSummaryTest, LeavesOutWhatWasNotTested) {
  auto summary = some_summary();
  summary.test_loss.reset();
  summary.test_metrics.clear();
  EXPECT_THAT(cli::to_text(summary), ::testing::StartsWith("samples/s"));
  EXPECT_THAT(cli::to_json(summary), HasSubstr("\"test_accuracy\": null,\n  \"test_loss\": null,\n"
                                               "  \"test_metrics\": {},\n"));
}

TEST(TrainSummaryTest, HasNoSpeedWhereNothingWasTrained) {
  auto summary = some_summary();
  summary.optimizer_steps = summary.resumed_at;
  EXPECT_EQ(cli::to_text(summary),
            "test accuracy  91.25 %\n"
            "test loss      0.2500\n"
            "memory         weights 1.5 MiB and optimizer 3.0 MiB, once for the host; 24.0 MiB "
            "shared in all, 100.5 MiB for an instance\n"
            "checkpoints    4: training waited 0.062 s for them, writing took 0.500 s of a CPU\n"
            "weights: 0123456789abcdef  (R=8 T=1)\n");
}

TEST(TrainSummaryTest, HoldsEveryFieldAsJson) {
  EXPECT_EQ(cli::to_json(some_summary()), R"({
  "samples_per_second": 1199.75,
  "test_accuracy": 91.25,
  "test_loss": 0.25,
  "test_metrics": {
    "acc": 91.25,
    "top5": 99.5
  },
  "train_loss": 0.375,
  "train_metrics": {
    "acc": 87.5
  },
  "weights": "0123456789abcdef",
  "time_to_first_step_s": 1.5,
  "first_step_unix_s": 1000.5,
  "last_step_unix_s": 1243.75,
  "train_seconds": 243.25,
  "time": {
    "data": 0.0125,
    "compute": 0.8,
    "reduce": 0.125,
    "idle": 0.0625
  },
  "bottleneck": "reduction-bound: combining gradients and updating weights took 12 % of the time; try --gradient-accumulation 4",
  "stages": [
    {
      "forward_s": 0.25,
      "backward_s": 0.75
    }
  ],
  "memory": {
    "weights_bytes": 1572864,
    "optimizer_bytes": 3145728,
    "shared_bytes": 25165824,
    "private_bytes": 105381888
  },
  "checkpoints": {
    "taken": 4,
    "blocked_s": 0.0625,
    "writer_cpu_s": 0.5
  },
  "model": "resnet20",
  "dataset": "fashion-mnist",
  "replicas": 8,
  "instances": 4,
  "threads_per_device": 1,
  "batch_size": 64,
  "gradient_accumulation": 2,
  "device_iterations": 3,
  "epochs": 5,
  "optimizer_steps": 285,
  "samples": 291840,
  "resumed_at_step": 57,
  "precision": "16.32",
  "seed": 2022
}
)");
}

TEST(TrainSummaryTest, WritesJsonOfWhatIsNoNumberAndOfPathsThatAreNoText) {
  auto summary = some_summary();
  summary.train_loss = std::numeric_limits<double>::quiet_NaN();
  summary.dataset = "\xff.pack";
  const auto json = cli::to_json(summary);
  EXPECT_THAT(json, HasSubstr("\"train_loss\": null"));
  EXPECT_THAT(json, HasSubstr("\"dataset\": \"\xef\xbf\xbd.pack\""));
}

}  // namespace
}  // namespace lockstep::testing
