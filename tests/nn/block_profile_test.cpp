#include "lockstep/nn/block_profile.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/memory/block_pool.h"
#include "lockstep/nn/memory/kept_activations.h"
#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/zoo/resnet.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

/// Samples of this shape.
InputFor ones_of(std::vector<std::int64_t> shape) {
  return [shape = std::move(shape)](std::int64_t samples) {
    auto sizes = shape;
    sizes.insert(sizes.begin(), samples);
    return torch::ones(sizes);
  };
}

at::Tensor profiled_images(std::int64_t samples) {
  return make_seeded(1, [&] { return torch::randn({samples, 3, 32, 32}); });
}

std::int64_t sum_of(const plan::ModelProfile& profile, std::int64_t plan::BlockProfile::*bytes) {
  std::int64_t sum = 0;
  for (const auto& block : profile.blocks) sum += block.*bytes;
  return sum;
}

TEST(BlockProfileTest, TellsTheBytesOfAResNet) {
  const auto model = model_of(resnet20(10));
  const auto profile = profile_blocks(*model, profiled_images, {.samples = 4});
  EXPECT_FALSE(profile.is_timed);
  ASSERT_EQ(profile.blocks.size(), 11U);
  const auto& first = profile.blocks[1];
  const std::int64_t activation = 4 * 4 * 16 * 32 * 32;
  EXPECT_EQ(first.name, "layer1.0");
  EXPECT_EQ(first.output_bytes, activation);
  // What two convolutions and two batch norms give, and statistics of channels.
  EXPECT_GE(first.kept_bytes, 4 * activation);
  EXPECT_LT(first.kept_bytes, 4 * activation + 10'000);
  EXPECT_GE(first.backward_bytes, 2 * activation) << "its output's gradient and another one";
  EXPECT_LE(first.backward_bytes, 4 * activation + 30'000);
  EXPECT_EQ(first.forward_s, 0);
  EXPECT_EQ(first.parameter_bytes, 4 * 2 * (16 * 16 * 9 + 2 * 16));
  EXPECT_EQ(first.buffer_bytes, 2 * (4 * 2 * 16 + 8));
  EXPECT_EQ(profile.blocks[10].output_bytes, 4 * 4 * 10);
  EXPECT_EQ(sum_of(profile, &plan::BlockProfile::parameter_bytes), 4 * count_parameters(*model));
  for (const auto& block : profile.blocks) {
    EXPECT_GE(block.forward_bytes, 0) << block.name;
    EXPECT_GE(block.backward_bytes, block.output_bytes) << block.name;
  }
}

TEST(BlockProfileTest, KnowsWhatTheWholeModelKeeps) {
  const auto model = model_of(resnet20(10));
  const auto input = profiled_images(4);
  const auto kept =
      sum_of(profile_blocks(*model, [&](auto) { return input; }, {.samples = input.size(0)}),
             &plan::BlockProfile::kept_bytes);
  const KeptActivations pooled;
  const auto before = KeptActivations::pool().use().bytes;
  const auto logits = model->forward(input);
  const auto after = KeptActivations::pool().use().bytes;
  EXPECT_EQ(kept, static_cast<std::int64_t>(after - before));
}

TEST(BlockProfileTest, TellsOfAMicroBatchFromFewerSamples) {
  const auto model = model_of(resnet20(10));
  const auto few = profile_blocks(*model, profiled_images, {.samples = 2, .micro_batch = 8});
  const auto all = profile_blocks(*model, profiled_images, {.samples = 8});
  const auto half = profile_blocks(*model, profiled_images, {.samples = 5, .micro_batch = 8});
  const auto less = profile_blocks(*model, profiled_images, {.samples = 10, .micro_batch = 8});
  for (std::size_t i = 0; i < all.blocks.size(); ++i) {
    const auto& expected = all.blocks[i];
    const auto& found = few.blocks[i];
    EXPECT_EQ(found.output_bytes, expected.output_bytes);
    EXPECT_NEAR(found.kept_bytes, expected.kept_bytes, 0.05 * expected.kept_bytes);
    EXPECT_NEAR(found.backward_bytes, expected.backward_bytes, 0.2 * expected.backward_bytes);
    EXPECT_EQ(half.blocks[i], expected);
    EXPECT_EQ(less.blocks[i], expected);
  }
}

TEST(BlockProfileTest, TimesBlocksAndTellsHowFarItIs) {
  const auto model = model_of(resnet20(10));
  int calls = 0;
  std::pair<int, int> last;
  const auto listen = [&](int done, int total) {
    ++calls;
    EXPECT_GE(done, last.first);
    last = {done, total};
  };
  const auto profile =
      profile_blocks(*model, profiled_images, {.samples = 2, .rounds = 2, .on_block = listen});
  EXPECT_TRUE(profile.is_timed);
  for (const auto& block : profile.blocks) {
    EXPECT_GT(block.forward_s, 0) << block.name;
    EXPECT_GT(block.backward_s, 0) << block.name;
  }
  EXPECT_EQ(last, std::pair(3 * 11 * 2, 3 * 11 * 2));
  EXPECT_EQ(calls, 3 * 11 * 2 + 1);
}

TEST(BlockProfileTest, BeginsNoFurtherRoundWhenTheTimeIsOver) {
  int done = 0;
  const auto profile = profile_blocks(
      *model_of(resnet20(10)), profiled_images,
      {.rounds = 1'000'000, .most_seconds = 0, .on_block = [&](int, int) { ++done; }});
  EXPECT_EQ(done, 11 * 2 + 1) << "the round that warms up";
  EXPECT_TRUE(profile.is_timed);
  EXPECT_GT(profile.blocks[3].backward_s, 0);
}

/// Weights, buffers and gradients after a step.
std::vector<at::Tensor> step(Model& model, const at::Tensor& input) {
  const RandomScope scope({.seed = 3});
  const auto output = model.forward(input);
  output.square().sum().backward();
  std::vector<at::Tensor> all{output};
  for (const auto& slot : slots_of(model.tensors())) {
    all.push_back(slot.role == TensorRole::Parameter ? slot.tensor().grad() : slot.tensor());
  }
  return all;
}

TEST(BlockProfileTest, LeavesTheModelAsItIs) {
  const auto resnet = model_of(resnet20(10));
  const auto dropping = model_of(torch::nn::Sequential(
      torch::nn::Flatten(), torch::nn::Linear(3 * 32 * 32, 64), torch::nn::BatchNorm1d(64),
      torch::nn::ReLU(torch::nn::ReLUOptions(true)), torch::nn::Dropout(0.5), Dropout(0.5),
      torch::nn::Linear(64, 10)));
  for (const auto* model : {&resnet, &dropping}) {
    const auto untouched = (*model)->clone();
    const auto before = digest_of(**model);
    profile_blocks(**model, profiled_images, {.samples = 4, .rounds = 1, .micro_batch = 6});
    EXPECT_EQ(digest_of(**model), before);
    for (const auto& named : (*model)->tensors()) EXPECT_FALSE(named.tensor.grad().defined());
    const auto found = step(**model, profiled_images(4));
    const auto expected = step(*untouched, profiled_images(4));
    for (std::size_t i = 0; i < found.size(); ++i) {
      testing::expect_same_bits(found[i], expected[i]);
    }
  }
}

TEST(BlockProfileTest, LeavesTheModeAsItIs) {
  torch::nn::Sequential layers(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  layers->eval();
  profile_blocks(*model_of(layers), ones_of({4}), {});
  EXPECT_FALSE(layers->is_training());
  EXPECT_FALSE(layers[1]->is_training());
}

TEST(BlockProfileTest, CountsWhatASequentialsLayersKeep) {
  const auto model = model_of(torch::nn::Sequential(
      torch::nn::Linear(100, 200), torch::nn::ReLU(torch::nn::ReLUOptions(true)), Dropout(0.5),
      torch::nn::Flatten(), torch::nn::Linear(200, 10)));
  const auto profile = profile_blocks(*model, ones_of({100}), {.samples = 8});
  const std::int64_t hidden = 8 * 200 * 4;
  EXPECT_EQ(profile.blocks[0].kept_bytes, hidden);
  EXPECT_EQ(profile.blocks[1].kept_bytes, 0) << "in place";
  EXPECT_GE(profile.blocks[2].kept_bytes, hidden) << "and what it dropped";
  EXPECT_LE(profile.blocks[2].kept_bytes, 2 * hidden);
  EXPECT_EQ(profile.blocks[3].kept_bytes, 0) << "a view";
  EXPECT_EQ(profile.blocks[3].output_bytes, hidden);
  EXPECT_EQ(profile.blocks[4].kept_bytes, 8 * 10 * 4);
  EXPECT_EQ(profile.blocks[0].parameter_bytes, 4 * (100 * 200 + 200));
}

TEST(BlockProfileTest, ABlockThatNothingIsLearnedInFrontOfTakesNothingBackward) {
  torch::nn::Sequential layers(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
  for (const auto& parameter : layers[0]->parameters()) parameter.set_requires_grad(false);
  const auto profile = profile_blocks(*model_of(layers), ones_of({4}), {.rounds = 1});
  EXPECT_EQ(profile.blocks[0].backward_bytes, 0);
  EXPECT_EQ(profile.blocks[0].backward_s, 0);
  EXPECT_EQ(profile.blocks[0].parameter_bytes, 0);
  EXPECT_EQ(profile.blocks[0].buffer_bytes, 0);
  EXPECT_GT(profile.blocks[1].backward_bytes, 0);
}

TEST(BlockProfileTest, NamesTheBlockThatLibtorchRefuses) {
  const auto model =
      model_of(torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Linear(5, 4)));
  testing::expect_error([&] { profile_blocks(*model, ones_of({4}), {}); }, ErrorKind::Options,
                        "profile: block '1': libtorch refuses: mat1 and mat2");
  const auto large = model_of(torch::nn::Sequential(torch::nn::Upsample(
      torch::nn::UpsampleOptions().scale_factor(std::vector<double>{1e5, 1e5}))));
  testing::expect_error(
      [&] {
        profile_blocks(*large, ones_of({4, 100, 100}), {});
      },
      ErrorKind::Unavailable, "block '0': there is not enough memory");
}

}  // namespace
}  // namespace lockstep::nn
