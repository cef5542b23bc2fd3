#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "lockstep/data/sets/synthetic.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/zoo/quick_networks.h"
#include "lockstep/nn/zoo/resnet.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using testing::expect_close;
using testing::run_job;

constexpr int kReplicas = 4;
constexpr std::int64_t kSteps = 10;  // in two epochs

TEST(OnGpuOptionsTest, DataIsNotStoredOnACpu) {
  testing::expect_error(
      [] {
        DataLoader loader(alone().data_on_device(), data::synthetic({.size = 8}),
                          {.batch_size = 4});
      },
      ErrorKind::Options, "data_on_device: expected a GPU, found device cpu");
}

TEST(OnGpuOptionsTest, AGpuHasToBeThere) {
  if (gpu::count_devices() > 0) GTEST_SKIP() << "there is one";
  testing::expect_error(
      [] {
        DataLoader loader(alone().device(DeviceKind::Cuda), data::synthetic({.size = 8}),
                          {.batch_size = 4});
      },
      ErrorKind::Unavailable, "--device cuda: ");
}

data::DatasetPtr pictures(std::int64_t size, data::Split split = data::Split::Train) {
  return data::synthetic({.size = size, .height = 8, .width = 8, .seed = 3, .split = split});
}

/// What a run came to.
struct Outcome {
  std::shared_ptr<nn::Network> net;  ///< trained
  std::string digest{};
  std::vector<std::vector<float>> losses{};  ///< by step and replica
  std::vector<bool> skipped{};
  double test_loss = 0;
  double test_accuracy = 0;
};

/// What is trained, and how. Each run makes its own of it.
struct Recipe {
  std::function<std::shared_ptr<nn::Network>()> make = [] { return nn::resnet20(10); };
  Optimizer optimizer = SGD({.lr = 0.05, .momentum = 0.9});
  std::int64_t steps = kSteps;
  std::function<void(std::int64_t step)> after_step = [](std::int64_t) {};
};

Outcome train(const Options& options, const Recipe& recipe = {}) {
  const auto set = pictures(160);
  const auto pipeline = data::training_pipeline(
      data::Augment::Standard, set->fields()[0],
      {.normalize = data::imagenet_normalize(), .output = {.type = DataType::F32}});
  DataLoader loader(options, set,
                    {.batch_size = 4, .shuffle = true, .workers = 1, .pipeline = pipeline});
  EvaluationLoader test(options, pictures(43, data::Split::Test), {.batch_size = 8, .workers = 1});
  Outcome outcome{.net = recipe.make()};
  TrainingModel model(outcome.net, options, recipe.optimizer);
  model.on_step([&](std::int64_t step, const StepResult& result) {
    outcome.losses.push_back(result.replica_losses);
    outcome.skipped.push_back(result.skipped);
    recipe.after_step(step);
  });
  for (int epoch : model.epochs(2)) {
    (void)epoch;
    for (auto& iteration : loader) {
      if (model.steps() < recipe.steps) model.step(iteration);
    }
  }
  outcome.digest = model.digest();
  const auto result = model.evaluate(test);
  outcome.test_loss = result.loss;
  outcome.test_accuracy = result.accuracy;
  return outcome;
}

/// Four replicas, two micro-batches of four samples each: five steps in an epoch.
Options four_replicas(Options options = alone(kReplicas)) {
  return options.gradient_accumulation(2).device_iterations(5).seed(11);
}

Options on_gpu(Options options = alone(kReplicas)) {
  return four_replicas(std::move(options)).device(DeviceKind::Cuda);
}

void expect_close_losses(const Outcome& found, const Outcome& expected, double relative,
                         std::size_t steps = kSteps) {
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < std::min(steps, expected.losses.size()); ++step) {
    for (std::size_t i = 0; i < expected.losses[step].size(); ++i) {
      EXPECT_NEAR(found.losses[step][i], expected.losses[step][i],
                  relative * expected.losses[step][i])
          << "step " << step << ", replica " << i;
    }
  }
}

void expect_close_tensors(const nn::Network& found, const nn::Network& expected, double relative) {
  const auto parameters = expected.named_parameters();
  const auto buffers = expected.named_buffers();
  for (const auto& entry : found.named_parameters()) {
    expect_close(entry.value(), parameters[entry.key()], relative, entry.key());
  }
  for (const auto& entry : found.named_buffers()) {
    expect_close(entry.value().to(at::kFloat), buffers[entry.key()].to(at::kFloat), relative,
                 entry.key());
  }
}

class OnGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu::count_devices() == 0) GTEST_SKIP() << "there is no GPU here";
  }
};

TEST_F(OnGpuTest, LearnsWhatACpuLearns) {
  const auto expected = train(four_replicas());
  const auto found = train(on_gpu());
  expect_close_losses(found, expected, 0.02);
  EXPECT_NEAR(found.losses.front()[0], expected.losses.front()[0], 1e-4);
  EXPECT_NEAR(found.test_loss, expected.test_loss, 0.05 * expected.test_loss);
}

/// After one step of plain SGD, weights differ by what the gradients do.
TEST_F(OnGpuTest, FusedMicroBatchesGiveTheGradientsAndBuffersOfSingleOnes) {
  const Recipe one_step{.optimizer = SGD({.lr = 1}), .steps = 1};
  const auto single = train(on_gpu().device_iterations(1).fuse(Fuse::Off), one_step);
  const auto fused = train(on_gpu().device_iterations(1), one_step);
  const auto by_replica = train(on_gpu().device_iterations(1).deterministic(), one_step);
  const auto on_cpu = train(four_replicas().device_iterations(1), one_step);
  for (const auto* other : {&fused, &by_replica, &on_cpu}) {
    expect_close_losses(*other, single, 1e-5);
    expect_close_tensors(*other->net, *single.net, 2e-4);
  }
}

TEST_F(OnGpuTest, LearnsInSixteenBits) {
  const auto expected = train(four_replicas());
  for (const auto half : {Half::BF16, Half::F16}) {
    const auto found = train(on_gpu().precision(Precision::P16_16, half).loss_scale(128));
    expect_close_losses(found, expected, 0.1);
    EXPECT_NEAR(found.losses.front()[0], expected.losses.front()[0], 0.01);
  }
}

/// Also where only numbers on the way were too large, which have 32 bits on a CPU: a step or two
/// more are skipped.
TEST_F(OnGpuTest, SkipsStepsThatOverflow) {
  const Recipe recipe{.make = [] { return nn::mlp(10, {.height = 8, .width = 8}); },
                      .optimizer = Adam({.lr = 0.001})};
  const auto with_scale = [](Options options) {
    return options.precision(Precision::P16_16, Half::F16).loss_scale(0x1p24);
  };
  const auto expected = train(with_scale(four_replicas()), recipe);
  const auto found = train(with_scale(on_gpu()), recipe);
  const auto num_skipped = [](const Outcome& outcome) {
    return std::ranges::count(outcome.skipped, true);
  };
  EXPECT_TRUE(std::ranges::is_sorted(found.skipped, std::greater()));
  EXPECT_GE(num_skipped(found), num_skipped(expected));
  EXPECT_LE(num_skipped(found), num_skipped(expected) + 2);
  EXPECT_LT(num_skipped(found), kSteps);
  // Those of the first weights: a skipped step changes none.
  expect_close_losses(found, expected, 0.02, static_cast<std::size_t>(num_skipped(expected)) + 1);
}

/// Dropout, clipping, what only some optimizers keep, and an average.
std::vector<Recipe> recipes() {
  const auto dropping = [] {
    return nn::make_seeded(1, [] {
      return std::make_shared<nn::Network>([](nn::Network& described) {
        auto convolution = described.register_module(
            "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 12, 3).stride(2)));
        auto norm = described.register_module("norm", nn::BatchNorm(12));
        auto drop = described.register_module("drop", nn::Dropout(0.3));
        auto head = described.register_module("head", torch::nn::Linear(12 * 9, 10));
        described.add_block({"stem", {"conv", "norm", "drop"}, [=](const at::Tensor& input) {
                               return drop->forward(
                                   norm->forward_relu(convolution->forward(input)));
                             }});
        described.add_block({"head", {"head"}, [=](const at::Tensor& input) {
                               return head->forward(input.flatten(1));
                             }});
      });
    });
  };
  return {{.optimizer = AdamW({.lr = 0.002, .weight_decay = 0.1}).average_weights(0.5)},
          {.make = dropping, .optimizer = LAMB({.lr = 0.01, .weight_decay = 0.01}).clip_norm(2)}};
}

TEST_F(OnGpuTest, IsDeterministicForAnyNumberOfInstances) {
  for (const auto& recipe : recipes()) {
    for (const auto precision : {Precision::P32_32, Precision::P16_16}) {
      const auto options = on_gpu().deterministic().precision(precision);
      const auto expected = train(options, recipe);
      EXPECT_EQ(train(options, recipe).digest, expected.digest) << "a second run";
      for (const int instances : {1, 2, 3}) {
        run_job(instances, kReplicas, [&](const Options& launched) {
          const auto found = train(on_gpu(launched).deterministic().precision(precision), recipe);
          EXPECT_EQ(found.digest, expected.digest) << instances << " instances";
          EXPECT_EQ(found.losses, expected.losses) << instances << " instances";
        });
      }
    }
  }
}

TEST_F(OnGpuTest, DropsTheSameUnitsHoweverMicroBatchesAreFused) {
  const auto recipe = recipes()[1];
  const auto single = train(on_gpu().fuse(Fuse::Off), recipe);
  const auto fused = train(on_gpu(), recipe);
  expect_close_losses(fused, single, 1e-3);
}

TEST_F(OnGpuTest, MakesTheSamePicturesOfStoredDataAsALoader) {
  const auto options = on_gpu().deterministic();
  const auto expected = train(options);
  const auto found = train(on_gpu().deterministic().data_on_device());
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.digest, expected.digest);
}

TEST_F(OnGpuTest, AddsUpByNcclWithTheSameBits) {
  const auto expected = train(on_gpu().deterministic());
  const auto found = train(on_gpu().deterministic().gpu_transport(GpuTransport::Nccl));
  EXPECT_EQ(found.digest, expected.digest);
  const auto fast = train(on_gpu()
                              .gpu_transport(GpuTransport::Nccl)
                              .reduction_order(ReductionOrder::Fast)
                              .fuse(Fuse::Off));
  expect_close_losses(fast, expected, 0.02);
}

TEST_F(OnGpuTest, NcclWantsAGpuForEachInstance) {
  if (gpu::count_devices() > 1) GTEST_SKIP() << "there are several GPUs";
  testing::expect_error(
      [] {
        run_job(2, kReplicas, [](const Options& launched) {
          train(on_gpu(launched).gpu_transport(GpuTransport::Nccl));
        });
      },
      ErrorKind::Options, "expected a GPU for each instance, found instances 0 and 1 on GPU 0");
}

TEST_F(OnGpuTest, LaunchesOfOtherLengthsGiveTheSameBits) {
  const auto expected = train(on_gpu().deterministic());
  for (const std::int64_t steps : {1, 2, 3}) {
    EXPECT_EQ(train(on_gpu().deterministic().steps_at_once(steps)).digest, expected.digest);
  }
}

TEST_F(OnGpuTest, ACrashCostsTheStepsSinceTheLastSnapshot) {
  const auto recipe = recipes()[0];
  const auto undisturbed = train(on_gpu().deterministic().steps_at_once(1), recipe);
  for (const std::int64_t crash : {1, 4, 6, 9}) {
    testing::RestartedJob job;
    auto crashing = recipe;
    crashing.after_step = [&](std::int64_t step) {
      if (step == crash) throw Error(ErrorKind::Bug, "a crash");
    };
    const auto options = [](const Options& launched) {
      return on_gpu(launched).deterministic().steps_at_once(1).snapshot_every(2);
    };
    job.failed_attempt(ErrorKind::Bug, 1, kReplicas,
                       [&](const Options& launched) { train(options(launched), crashing); });
    job.attempt(1, kReplicas, [&](const Options& launched) {
      const auto found = train(options(launched), recipe);
      EXPECT_EQ(found.digest, undisturbed.digest) << "after step " << crash;
      EXPECT_LE(std::ssize(found.losses), kSteps - crash + 4);
    });
  }
}

TEST_F(OnGpuTest, GoesOnFromACheckpoint) {
  const testing::ScratchFolder folder;
  const auto undisturbed = train(on_gpu().deterministic());
  const auto options = [&] {
    return on_gpu().deterministic().checkpoints({.folder = folder.path(), .every = "1 epoch"});
  };
  train(options(), {.steps = 5});
  const auto found = train(options().resume());
  EXPECT_EQ(found.digest, undisturbed.digest);
}

TEST_F(OnGpuTest, NamesDeviceReplicasAndStepWhereMemoryIsShort) {
  const Recipe huge{.make = [] { return nn::resnet20(10); }};
  const auto options = on_gpu().device_iterations(1);
  const auto free = gpu::describe_device(0).free_bytes;
  const auto taken =
      at::empty({free - (std::int64_t{600} << 20)}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  const auto set = data::synthetic({.size = 4096, .height = 128, .width = 128});
  DataLoader loader(options, set, {.batch_size = 512, .workers = 4});
  TrainingModel model(huge.make(), options, huge.optimizer);
  testing::expect_error([&] { model.step(*loader.begin()); }, ErrorKind::Unavailable,
                        "GPU 0, replicas 0 to 3");
}

}  // namespace
}  // namespace lockstep
