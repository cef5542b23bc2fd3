#include "lockstep/train/api/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::expect_same_bits;

Fields labels(const at::Tensor& values) {
  Fields fields;
  fields.set("label", values);
  return fields;
}

TEST(TaskTest, CrossEntropyIsTheMeanOfNegativeLogarithms) {
  // Shares of 1/4 and 3/4, then of 1/2 and 1/2.
  const auto output = torch::tensor({{0.F, std::log(3.F)}, {1.F, 1.F}});
  const auto expected = (-std::log(0.25) - std::log(0.5)) / 2;
  for (const auto type : {at::kByte, at::kInt, at::kLong}) {
    const auto loss = cross_entropy()(output, labels(torch::tensor({0, 1}).to(type)));
    EXPECT_NEAR(loss.item<double>(), expected, 1e-6);
  }
}

TEST(TaskTest, SmoothingSpreadsAShareOfTheTruthOverAllClasses) {
  const auto output = torch::tensor({{0.F, std::log(3.F)}});
  const auto loss = cross_entropy("label", 0.2)(output, labels(torch::tensor({0})));
  EXPECT_NEAR(loss.item<double>(), -0.9 * std::log(0.25) - 0.1 * std::log(0.75), 1e-6);
  for (const double smoothing : {-0.1, 1.0, std::nan("")}) {
    expect_error([&] { cross_entropy("label", smoothing); }, ErrorKind::Options,
                 "cross-entropy: expected a smoothing of at least 0 and below 1, found");
  }
}

TEST(TaskTest, CrossEntropyWantsWholeNumbers) {
  expect_error(
      [] {
        cross_entropy()(torch::ones({2, 3}), labels(torch::ones({2})));
      },
      ErrorKind::Options,
      "cross-entropy: expected whole numbers in the field 'label', found Float\nname the "
      "field that holds the classes, or choose another loss");
}

TEST(TaskTest, MeanSquaredErrorIsOverAllNumbersOfOneShape) {
  const auto fields = labels(torch::tensor({{1.F, 2.F}, {3.F, 5.F}}));
  EXPECT_EQ(mean_squared_error("label")(torch::zeros({2, 2}), fields).item<float>(), 39.F / 4);
  expect_error(
      [&] {
        mean_squared_error("label")(torch::ones({2, 1}), fields);
      },
      ErrorKind::Options,
      "mean squared error: expected outputs of the shape of 'label', [2, 2], found [2, 1]");
  expect_error(
      [&] {
        mean_squared_error("z")(torch::ones({2, 1}), fields);
      },
      ErrorKind::Options, "fields: expected one of label, found 'z'");
}

TEST(TaskTest, AccuracyIsThePercentageOfLargestOutputs) {
  const auto metric = accuracy();
  EXPECT_EQ(metric.name, "acc");
  EXPECT_EQ(metric.scale, 100);
  const auto output = torch::tensor({{1.F, 2.F, 0.F}, {3.F, 2.F, 0.F}, {1.F, 2.F, 9.F}});
  EXPECT_EQ(metric.sum(output, labels(torch::tensor({1, 1, 2}))).item<double>(), 2);
  expect_error(
      [&] {
        metric.sum(output, labels(torch::ones({3, 2}, at::kLong)));
      },
      ErrorKind::Options, "accuracy: expected outputs [N, classes, …] for 'label' [3, 2]");
}

TEST(TaskTest, AccuracyOfManyPlacesCountsSamples) {
  // Two samples of two places each: three of four are right, 1.5 samples of 2.
  const auto output = torch::tensor({5.F, 1.F, 0.F, 2.F, 0.F, 3.F, 1.F, 1.5F}).reshape({2, 2, 2});
  const auto sum = accuracy().sum(output, labels(torch::tensor({{0, 1}, {1, 1}})));
  EXPECT_EQ(sum.item<double>(), 1.5);
}

TEST(TaskTest, TakesAFieldAsItIs) {
  const auto values = torch::ones({2, 3});
  EXPECT_TRUE(input_field("label")(labels(values)).is_same(values));
}

TEST(TaskTest, IsTestedWithALossOfItsOwn) {
  const auto data = testing::regression(8, 6, 3);
  auto task = testing::regression_task();
  task.loss = [](const at::Tensor& output, const Fields& fields) {
    return 10 * at::mse_loss(output, fields["y"]);
  };
  task.test_loss = mean_squared_error("y");
  const auto options = testing::alone();
  DataLoader loader(options, data.set(), {.batch_size = 8});
  EvaluationLoader test(options, data.set(), {.batch_size = 8});
  TrainingModel model(testing::small_net(), options, SGD({.lr = 0}), task);
  EXPECT_NEAR(model.step(*loader.begin()).loss, 10 * model.evaluate(test).loss, 1e-4);
  EXPECT_GT(model.evaluate(test).loss, 0.1);
}

/// What micro-batches would have had one by one.
at::Tensor losses_one_by_one(const Loss& loss, const at::Tensor& output, const Fields& fields,
                             std::int64_t groups) {
  std::vector<at::Tensor> losses;
  const auto samples = output.size(0) / groups;
  for (std::int64_t i = 0; i < groups; ++i) {
    losses.push_back(
        loss(output.narrow(0, i * samples, samples), fields.part(i * samples, samples)));
  }
  return at::stack(losses);
}

TEST(TaskTest, LossesOfSeveralMicroBatchesAreThoseOfEach) {
  torch::manual_seed(3);
  const auto output = torch::randn({12, 5});
  Fields fields;
  // One that does not count: its micro-batch has a mean over fewer.
  fields.set("label", torch::tensor({0, 1, 2, 3, 4, -100, 1, 2, 0, 4, 3, 2}));
  fields.set("target", torch::randn({12, 5}));
  const Loss own(
      [](const at::Tensor& found, const Fields& of) { return (found - of["target"]).abs().max(); });
  for (const auto& loss :
       {cross_entropy(), cross_entropy("label", 0.1), mean_squared_error("target"), own}) {
    for (const std::int64_t groups : {1, 3, 4}) {
      const auto losses = loss.of_groups(output, fields, groups);
      ASSERT_EQ(losses.sizes(), at::IntArrayRef({groups}));
      expect_close(losses, losses_one_by_one(loss, output, fields, groups), 1e-6);
    }
  }
}

}  // namespace
}  // namespace lockstep
