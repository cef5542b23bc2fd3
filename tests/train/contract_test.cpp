#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <mutex>

#include "lockstep/data/sets/synthetic.h"
#include "lockstep/data/transform/presets.h"
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

constexpr int kReplicas = 8;

data::DatasetPtr pictures(std::int64_t size, data::Split split = data::Split::Train) {
  return data::synthetic({.size = size, .height = 8, .width = 8, .seed = 3, .split = split});
}

/// Dropout of ours and of libtorch's.
std::shared_ptr<nn::Network> dropping_convnet() {
  auto net = nn::make_seeded(1, [] {
    return std::make_shared<nn::Network>([](nn::Network& described) {
      auto convolution = described.register_module(
          "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 12, 3).stride(2)));
      auto norm = described.register_module("norm", nn::BatchNorm(12));
      auto ours = described.register_module("ours", nn::Dropout(0.3));
      auto theirs = described.register_module("theirs", torch::nn::Dropout(0.3));
      auto head = described.register_module("head", torch::nn::Linear(12 * 9, 10));
      described.add_block({"stem", {"conv", "norm", "ours"}, [=](const at::Tensor& input) {
                             return ours->forward(norm->forward_relu(convolution->forward(input)));
                           }});
      described.add_block({"head", {"theirs", "head"}, [=](const at::Tensor& input) {
                             return head->forward(theirs->forward(input.flatten(1)));
                           }});
    });
  });
  return net;
}

/// What a run is made of, apart from who carries it.
struct Recipe {
  std::string name;
  std::function<std::shared_ptr<nn::Network>()> make;
  Optimizer optimizer;
  std::function<void(Options&)> adjust = [](Options&) {};
  bool skips = false;  ///< some steps, by loss scaling
};
void PrintTo(const Recipe& recipe, std::ostream* out) {
  *out << recipe.name;
}

/// All that may not depend on who carries the replicas.
struct Outcome {
  std::string digest;
  std::vector<std::vector<float>> losses;  ///< by step and replica
  std::vector<bool> skipped;               ///< by step
  double test_loss = 0;
  double test_accuracy = 0;

  bool operator==(const Outcome&) const = default;
};

struct Carriers {
  int instances = 1;
  data::LoaderMode mode = data::LoaderMode::Async;
  int workers = 1;
};

Outcome train(const Options& options, const Recipe& recipe, const Carriers& carriers) {
  const auto set = pictures(160);
  const auto pipeline = data::training_pipeline(
      data::Augment::Standard, set->fields()[0],
      {.normalize = data::imagenet_normalize(), .output = {.type = DataType::F32}});
  DataLoader loader(options, set,
                    {.batch_size = 2,
                     .shuffle = true,
                     .mode = carriers.mode,
                     .workers = carriers.workers,
                     .pipeline = pipeline});
  EvaluationLoader test(options, pictures(43, data::Split::Test),
                        {.batch_size = 4, .mode = carriers.mode, .workers = carriers.workers});
  TrainingModel model(recipe.make(), options, recipe.optimizer);
  Outcome outcome;
  model.on_step([&](std::int64_t, const StepResult& step) {
    outcome.losses.push_back(step.replica_losses);
    outcome.skipped.push_back(step.skipped);
  });
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& iteration : loader) model.step(iteration);
  }
  outcome.digest = model.digest();
  if (recipe.optimizer.average_decay()) outcome.digest += model.digest(WeightsKind::Average);
  const auto result = model.evaluate(test);
  outcome.test_loss = result.loss;
  outcome.test_accuracy = result.accuracy;
  return outcome;
}

/// By instance.
std::vector<Outcome> train(const Recipe& recipe, const Carriers& carriers) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(carriers.instances));
  run_job(carriers.instances, kReplicas, [&](Options options) {
    options.gradient_accumulation(2).device_iterations(2).seed(11);
    recipe.adjust(options);
    outcomes[static_cast<std::size_t>(options.world().instance())] =
        train(options, recipe, carriers);
  });
  return outcomes;
}

class ContractTest : public ::testing::TestWithParam<Recipe> {};

TEST_P(ContractTest, TheBitsDoNotDependOnWhoCarriesTheReplicas) {
  const auto expected = train(GetParam(), {}).front();
  ASSERT_EQ(expected.losses.size(), 8U);
  for (const auto& step : expected.losses) {
    ASSERT_EQ(step.size(), std::size_t{kReplicas});
    EXPECT_NE(step[0], step[7]);
  }
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  EXPECT_EQ(std::ranges::count(expected.skipped, true) > 0, GetParam().skips);
  EXPECT_FALSE(expected.skipped.back());
  using data::LoaderMode;
  for (const auto& carriers :
       {Carriers{1, LoaderMode::Sync, 0}, Carriers{2, LoaderMode::Async, 2},
        Carriers{3, LoaderMode::Async, 0}, Carriers{4, LoaderMode::Async, 4},
        Carriers{5, LoaderMode::Sync, 0}, Carriers{8, LoaderMode::Async, 1}}) {
    const auto outcomes = train(GetParam(), carriers);
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome.digest, expected.digest) << carriers.instances << " instances";
      EXPECT_EQ(outcome.losses, expected.losses) << carriers.instances << " instances";
      EXPECT_EQ(outcome.skipped, expected.skipped) << carriers.instances << " instances";
      EXPECT_EQ(outcome.test_loss, expected.test_loss) << carriers.instances << " instances";
      EXPECT_EQ(outcome.test_accuracy, expected.test_accuracy);
    }
  }
}

TEST_P(ContractTest, AProcessOfItsOwnGivesTheBitsOfAJob) {
  auto options = alone(kReplicas);
  options.gradient_accumulation(2).device_iterations(2).seed(11);
  GetParam().adjust(options);
  EXPECT_EQ(train(options, GetParam(), {}), train(GetParam(), {.instances = 2}).front());
}

INSTANTIATE_TEST_SUITE_P(
    Networks, ContractTest,
    ::testing::Values(Recipe{"MlpClipped", [] { return nn::mlp(10, {.height = 8, .width = 8}); },
                             SGD({.lr = 0.05, .momentum = 0.9, .nesterov = true}).clip_norm(0.5)},
                      Recipe{"MlpOf16BitsWithSkippedSteps",
                             [] { return nn::mlp(10, {.height = 8, .width = 8}); },
                             Adam({.lr = 0.001}),
                             [](Options& options) {
                               options.precision(Precision::P16_16, Half::F16)
                                   .loss_scale(0x1p20)
                                   .reduction(Reduction::Sum)
                                   .schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 1}, 2);
                             },
                             true},
                      Recipe{"ConvnetWithDropoutAndLamb", dropping_convnet,
                             LAMB({.lr = 0.01, .weight_decay = 0.01}).clip_norm(2)},
                      Recipe{"ResNetAveraged", [] { return nn::resnet20(10); },
                             AdamW({.lr = 0.002, .weight_decay = 0.1}).average_weights(0.5)}),
    [](const auto& one) { return one.param.name; });

TEST(ContractTest, TheFirstWeightsAreThoseOfInstance0) {
  std::mutex mutex;
  std::vector<std::string> digests;
  run_job(3, 3, [&](const Options& options) {
    const auto seed = static_cast<std::uint64_t>(options.world().instance());
    TrainingModel model(nn::mlp(10, {.height = 8, .width = 8}, {.seed = seed}), options,
                        SGD().group({.names = {"fc2.*"}, .frozen = true}));
    const auto digest = model.digest();
    const std::lock_guard lock(mutex);
    digests.push_back(digest);
  });
  TrainingModel first(nn::mlp(10, {.height = 8, .width = 8}), alone(), SGD());
  EXPECT_THAT(digests, ::testing::Each(first.digest()));
}

TEST(ContractTest, InstancesSaveOneFileAndAllLoadIt) {
  const testing::ScratchFolder folder;
  const auto file = folder.path() + "/net.safetensors";
  std::mutex mutex;
  std::vector<std::string> digests;
  run_job(3, 4, [&](const Options& options) {
    DataLoader loader(options, testing::regression(16, 6, 3).set(), {.batch_size = 2});
    TrainingModel model(testing::small_net(), options, SGD(), testing::regression_task());
    model.save(file);
    for (auto& iteration : loader) model.step(iteration);
    const auto trained = model.digest();
    model.load(file);
    const auto loaded = model.digest();
    model.predict(testing::regression(16, 6, 3).x);
    const std::lock_guard lock(mutex);
    EXPECT_NE(trained, loaded);
    digests.push_back(loaded);
  });
  TrainingModel fresh(testing::small_net(), alone(), SGD());
  EXPECT_THAT(digests, ::testing::Each(fresh.digest()));
  EXPECT_EQ(digests.size(), 3U);
}

/// The weights after two epochs of six steps of 16 samples.
std::shared_ptr<testing::SmallNetImpl> after_training(Options options, std::int64_t batch_size,
                                                      double lr) {
  const auto net = testing::small_net();
  DataLoader loader(options, testing::regression(96, 6, 3).set(),
                    {.batch_size = batch_size, .shuffle = true});
  EXPECT_EQ(loader.shape().samples_per_step(), 16);
  TrainingModel model(net, options, SGD({.lr = lr, .momentum = 0.9}), testing::regression_task());
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& iteration : loader) model.step(iteration);
  }
  return net;
}

void expect_same_weights(const testing::SmallNetImpl& found,
                         const testing::SmallNetImpl& expected) {
  const auto theirs = expected.named_parameters();
  const auto before = testing::small_net()->named_parameters();
  for (const auto& entry : found.named_parameters()) {
    expect_close(entry.value(), theirs[entry.key()], 1e-5, entry.key());
    EXPECT_GT((entry.value() - before[entry.key()]).abs().max().item<float>(), 1e-3);
  }
}

TEST(ContractTest, ReplicasAndMicroBatchesAreOneLargeBatchInParts) {
  const auto whole = after_training(alone(), 16, 0.05);
  expect_same_weights(*after_training(alone(4).gradient_accumulation(2), 2, 0.05), *whole);
  expect_same_weights(*after_training(alone(2), 8, 0.05), *whole);
  expect_same_weights(*after_training(alone().gradient_accumulation(16), 1, 0.05), *whole);
}

TEST(ContractTest, ASumIsNotDividedByMicroBatches) {
  const auto whole = after_training(alone(), 16, 0.05);
  const auto sum = [](Options options) { return options.reduction(Reduction::Sum); };
  expect_same_weights(*after_training(sum(alone()), 16, 0.05), *whole);
  // Eight gradients are added up.
  expect_same_weights(*after_training(sum(alone(4).gradient_accumulation(2)), 2, 0.05 / 8), *whole);
  expect_same_weights(*after_training(sum(alone(4)), 4, 0.05 / 4), *whole);
}

TEST(ContractTest, EvaluationCountsEverySampleOnceHoweverFewBatchesThereAre) {
  const auto data = testing::regression(11, 6, 3);
  const auto net = testing::small_net();
  const auto expected = at::mse_loss(net->forward(data.x), data.y).item<double>();
  std::mutex mutex;
  std::vector<double> losses;
  std::vector<std::int64_t> heard;
  for (const int instances : {1, 3, 8}) {
    run_job(instances, kReplicas, [&](const Options& options) {
      // Four batches for eight replicas, the last of two samples.
      EvaluationLoader loader(options, data.set(), {.batch_size = 3});
      EXPECT_EQ(loader.batches(), 4);
      EXPECT_EQ(loader.samples(), 11);
      EXPECT_EQ(loader.size_of(3), 2);
      TrainingModel model(testing::small_net(), options, SGD(), testing::regression_task());
      std::int64_t batches = 0;
      const auto loss = model
                            .evaluate(loader, WeightsKind::Trained,
                                      [&](std::int64_t done) { EXPECT_EQ(done, ++batches); })
                            .loss;
      EXPECT_EQ(batches, loader.local_batches());
      EXPECT_EQ(model.evaluate(loader).loss, loss) << "a second time";
      const std::lock_guard lock(mutex);
      losses.push_back(loss);
    });
  }
  EXPECT_THAT(losses, ::testing::Each(losses.front()));
  EXPECT_NEAR(losses.front(), expected, 1e-6);
}

/// A norm and a line behind it.
struct NormedImpl : torch::nn::Cloneable<NormedImpl> {
  NormedImpl() { reset(); }
  void reset() override {
    norm = register_module("norm", torch::nn::BatchNorm1d(6));
    line = register_module("line", torch::nn::Linear(6, 3));
    untouched = register_buffer("untouched", torch::full({3}, 0.1F));
  }
  at::Tensor forward(const at::Tensor& x) { return line(norm(x)); }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear line{nullptr};
  at::Tensor untouched;
};

TEST(ContractTest, RunningStatisticsBecomeTheMeanOverReplicas) {
  const auto data = testing::regression(24, 6, 3);
  const auto net = std::make_shared<NormedImpl>();
  {
    const auto options = alone(3).gradient_accumulation(2);
    DataLoader loader(options, data.set(), {.batch_size = 4});
    TrainingModel model(net, options, SGD(), testing::regression_task());
    model.step(*loader.begin());
    // The module that was handed over is replica 0's, with the statistics of all after the step.
    model.digest();
  }
  auto mean = torch::zeros({6}), variance = torch::zeros({6});
  for (std::int64_t replica = 0; replica < 3; ++replica) {
    torch::nn::BatchNorm1d norm(6);
    for (std::int64_t i = 2 * replica; i < 2 * replica + 2; ++i) {
      norm(data.x.slice(0, 4 * i, 4 * i + 4));
    }
    mean += norm->running_mean / 3;
    variance += norm->running_var / 3;
  }
  expect_close(net->norm->running_mean, mean, 1e-6);
  expect_close(net->norm->running_var, variance, 1e-6);
  EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), 2);
  testing::expect_same_bits(net->untouched, torch::full({3}, 0.1F));
}

TEST(ContractTest, AnErrorOfOneReplicaIsTheErrorOfTheJob) {
  auto data = testing::regression(8, 6, 3);
  data.x[5][0] = 1000;
  testing::expect_error(
      [&] {
        run_job(3, kReplicas, [&](const Options& options) {
          DataLoader loader(options, data.set(), {});
          auto task = testing::regression_task();
          task.loss = [](const at::Tensor& output, const Fields& fields) {
            const bool is_bad = fields["x"].max().item<float>() == 1000;
            return at::mse_loss(output, fields["y"].slice(1, is_bad ? 1 : 0));
          };
          TrainingModel model(testing::small_net(), options, SGD(), task);
          for (auto& iteration : loader) model.step(iteration);
        });
      },
      ErrorKind::Options, "train: replica 5, step 1: libtorch refuses");
}

}  // namespace
}  // namespace lockstep
