#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::expect_error;
using testing::expect_same_bits;
using testing::matrix;
using testing::matrix_of;
using testing::regression_task;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// x = 1 and these targets.
testing::Regression targets(const std::vector<float>& y) {
  const auto count = static_cast<std::int64_t>(y.size());
  return {torch::ones({count, 1}), torch::tensor(y).reshape({count, 1})};
}

TEST(DivergenceTest, ALossThatIsNotFiniteEndsTheRunWithTheLastFiniteWeights) {
  const auto net = matrix(torch::zeros({1, 1}));
  {
    const auto options = alone(2);
    DataLoader loader(options, targets({1, 2, 3, 4, 5, kInfinity, 6, 7}).set(), {});
    TrainingModel model(net, options, SGD({.lr = 0.25}), regression_task());
    auto iteration = loader.begin();
    model.step(*iteration);  // gradient -2 · 1.5: the weight is 0.75
    model.step(*++iteration);
    const auto before = matrix_of(model, 1);
    try {
      model.step(*++iteration);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Diverged);
      EXPECT_STREQ(error.what(),
                   "train: the loss of replica 1 is inf at step 3; the last finite losses were "
                   "5.0625, 10.5625");
      EXPECT_THAT(error.hint(), ::testing::HasSubstr("a lower learning rate"));
    }
    EXPECT_EQ(model.steps(), 2);
    expect_same_bits(matrix_of(model, 1), before);
  }
  EXPECT_EQ(net->weight.item<float>(), 0.75F + 0.25F * 2 * (3.5F - 0.75F));
}

TEST(DivergenceTest, SaysSoWhereItIsTheFirstStep) {
  const auto options = alone(3).gradient_accumulation(2);
  DataLoader loader(options, targets({1, 2, 3, kNan, 5, 6}).set(), {});
  TrainingModel model(matrix(torch::zeros({1, 1})), options, SGD(), regression_task());
  expect_error([&] { model.step(*loader.begin()); }, ErrorKind::Diverged,
               "the loss of replica 1 is nan at step 1; there was no step before it");
}

/// Plain gradient descent that writes down its counts.
Optimizer counted(std::vector<std::int64_t>& counts) {
  return custom_optimizer({.lr = 0.25, .update = [&](const Slice& slice, const UpdateFacts& facts) {
                             counts.push_back(facts.count);
                             const auto lr = static_cast<float>(facts.lr);
                             slice.next_weights[0] = slice.weights[0] - lr * slice.gradient[0];
                           }});
}

TEST(LossScalingTest, SkipsStepsThatOverflowAndHalvesTheScaleUntilTheyDoNot) {
  std::vector<std::int64_t> counts;
  const auto options = alone().precision(Precision::P16_16, Half::F16).loss_scale(0x1p18);
  DataLoader loader(options, targets(std::vector<float>(6, -0.5F)).set(), {});
  TrainingModel model(matrix(torch::zeros({1, 1})), options, counted(counts), regression_task());
  std::vector<float> weights;
  std::vector<double> losses;
  std::vector<bool> skipped;
  for (auto& iteration : loader) {
    const auto result = model.step(iteration);
    losses.push_back(result.loss);
    skipped.push_back(result.skipped);
    weights.push_back(matrix_of(model, 1).item<float>());
  }
  // The gradient is 2(w + 0.5), at first 1: 2^18, 2^17 and 2^16 are beyond 16 bits, 2^15 is not.
  EXPECT_THAT(weights, ElementsAre(0, 0, 0, -0.25F, -0.375F, -0.4375F));
  EXPECT_THAT(losses, ElementsAre(0.25, 0.25, 0.25, 0.25, 0.0625, 0.015625));
  EXPECT_THAT(skipped, ElementsAre(true, true, true, false, false, false));
  EXPECT_THAT(counts, ElementsAre(1, 2, 3)) << "skipped steps do not count for the optimizer";
  EXPECT_EQ(model.steps(), 6);
}

TEST(LossScalingTest, RescuesGradientsThatAreTooSmallFor16Bits) {
  const auto train = [](double scale) {
    const auto options = alone().precision(Precision::P16_16, Half::F16).loss_scale(scale);
    DataLoader loader(options, targets({0x1p-27F}).set(), {});
    TrainingModel model(matrix(torch::zeros({1, 1})), options, SGD({.lr = 1}), regression_task());
    model.step(*loader.begin());
    return matrix_of(model, 1).item<float>();
  };
  EXPECT_EQ(train(1), 0) << "2^-26 is nothing in 16 bits";
  EXPECT_EQ(train(1024), 0x1p-26F);
}

/// With running statistics that a step moves.
struct DivergingImpl : torch::nn::Cloneable<DivergingImpl> {
  DivergingImpl() { reset(); }
  void reset() override {
    norm = register_module("norm", torch::nn::BatchNorm1d(1));
    linear = register_module("linear", torch::nn::Linear(1, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return linear(norm(x)); }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear linear{nullptr};
};

TEST(LossScalingTest, ASkippedStepLeavesNoNanInBuffers) {
  const auto net = std::make_shared<DivergingImpl>();
  const testing::Regression data{torch::tensor({{1.F}, {2.F}, {kInfinity}, {4.F}, {5.F}, {6.F}}),
                                 torch::ones({6, 1})};
  const auto options = alone().precision(Precision::P16_16, Half::F16);
  DataLoader loader(options, data.set(), {.batch_size = 2});
  TrainingModel model(net, options, SGD(), regression_task());
  auto iteration = loader.begin();
  model.step(*iteration);
  const auto before = model.digests();
  model.step(*++iteration);
  EXPECT_EQ(model.digests(), before) << "a skipped step changed something";
  model.step(*++iteration);
  EXPECT_NE(model.digest(), "");
  EXPECT_TRUE(std::isfinite(net->norm->running_mean.item<float>()));
  EXPECT_TRUE(std::isfinite(model.predict(torch::ones({1, 1})).item<float>()));
}

TEST(LossScalingTest, GivesUpWhereTheScaleCannotGoLower) {
  const auto options = alone().precision(Precision::P16_16, Half::F16).loss_scale(4);
  DataLoader loader(options, targets({0.5F, kNan, kNan, kNan, 1}).set(), {});
  TrainingModel model(matrix(torch::zeros({1, 1})), options, SGD({.lr = 0.25}), regression_task());
  auto iteration = loader.begin();
  EXPECT_EQ(model.step(*iteration).loss, 0.25);
  EXPECT_TRUE(std::isnan(model.step(*++iteration).loss));  // 4
  EXPECT_TRUE(std::isnan(model.step(*++iteration).loss));  // 2
  EXPECT_EQ(matrix_of(model, 1).item<float>(), 0.25F);
  expect_error([&] { model.step(*++iteration); }, ErrorKind::Diverged,
               "the loss of replica 0 is nan at step 4; the last finite losses were 0.25");
}

TEST(LossScalingTest, GivesUpWhereGradientsDoNotFit16BitsEvenUnscaled) {
  const auto options = alone().precision(Precision::P16_16, Half::F16).loss_scale(2);
  DataLoader loader(options, targets({-50000, -50000}).set(), {});
  TrainingModel model(matrix(torch::zeros({1, 1})), options, SGD(), regression_task());
  auto iteration = loader.begin();
  EXPECT_TRUE(model.step(*iteration).skipped);  // a gradient of 100000, and 65504 is the most
  expect_error([&] { model.step(*++iteration); }, ErrorKind::Diverged,
               "train: gradients are not finite at step 2, with a loss scale of 1; the losses were "
               "2.5e+09\n--half bf16");
}

TEST(PrecisionTest, RoundsTheLeavesOfReplicasOnce) {
  const auto data = testing::regression(8, 5, 3);
  const auto start = nn::make_seeded(5, [] { return torch::randn({5, 3}); });
  const auto options = alone(2).precision(Precision::P16_16, Half::BF16);
  DataLoader loader(options, data.set(), {.batch_size = 4});
  const auto net = matrix(start);
  TrainingModel model(net, options, SGD({.lr = 0.125}), regression_task());
  model.step(*loader.begin());

  auto sum = torch::zeros({3, 5});
  auto exact = torch::zeros({3, 5});
  for (std::int64_t replica = 0; replica < 2; ++replica) {
    const auto theirs = matrix(start);
    const auto x = data.x.slice(0, 4 * replica, 4 * replica + 4);
    torch::mse_loss(theirs->forward(x), data.y.slice(0, 4 * replica, 4 * replica + 4)).backward();
    sum = sum + theirs->weight.grad().to(at::kBFloat16).to(at::kFloat);
    exact = exact + theirs->weight.grad();
  }
  expect_same_bits(matrix_of(model, 5).t(), start.t() - 0.125 * (sum / 2));
  EXPECT_FALSE(matrix_of(model, 5).t().equal(start.t() - 0.125 * (exact / 2)));
}

TEST(PrecisionTest, LeavesGradientsAloneWhereOnlyTheInputHas16Bits) {
  const auto train = [](Precision precision) {
    const auto options = alone(2).precision(precision);
    DataLoader loader(options, testing::regression(8, 5, 3).set(), {.batch_size = 4});
    TrainingModel model(matrix(torch::ones({5, 3})), options, SGD(), regression_task());
    model.step(*loader.begin());
    return model.digest();
  };
  EXPECT_EQ(train(Precision::P16_32), train(Precision::P32_32)) << "'x' is no picture";
  EXPECT_NE(train(Precision::P16_16), train(Precision::P32_32));
}

}  // namespace
}  // namespace lockstep
