#include "lockstep/train/api/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using testing::expect_error;
using testing::run_job;

/// Class and prediction of each sample.
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

ConfusionMatrix confusion_of(std::int64_t classes, const Pairs& pairs) {
  ConfusionMatrix matrix(classes);
  for (const auto& [truth, predicted] : pairs) matrix.add(truth, predicted);
  return matrix;
}

const Pairs kPairs{{0, 0}, {2, 2}, {0, 0}, {1, 2}, {1, 1}, {0, 1},
                   {2, 0}, {1, 1}, {0, 0}, {1, 2}, {2, 2}};

TEST(ConfusionMatrixTest, CountsBothClassesOfASample) {
  const auto matrix = confusion_of(4, kPairs);
  EXPECT_EQ(matrix.classes(), 4);
  EXPECT_EQ(matrix.samples(), 11);
  EXPECT_EQ(matrix.correct(), 7);
  EXPECT_EQ(matrix.count(1, 2), 2);
  EXPECT_EQ(matrix.count(2, 1), 0);
  EXPECT_EQ(matrix.samples(0), 4);
  EXPECT_EQ(matrix.predictions(1), 3);
  EXPECT_EQ(matrix.correct(1), 2);
}

TEST(ConfusionMatrixTest, SharesAreThoseOfTheClassAndOfItsPredictions) {
  const auto matrix = confusion_of(4, kPairs);
  EXPECT_EQ(matrix.precision(1), 2.0 / 3);
  EXPECT_EQ(matrix.recall(1), 0.5);
  EXPECT_EQ(matrix.f1(1), 4.0 / 7);
  EXPECT_TRUE(std::isnan(matrix.precision(3)));
  EXPECT_TRUE(std::isnan(matrix.recall(3)));
  EXPECT_TRUE(std::isnan(matrix.f1(3)));
}

TEST(ConfusionMatrixTest, ListsTheMostFrequentConfusionsFirst) {
  using Cell = ConfusionMatrix::Cell;
  EXPECT_EQ(confusion_of(3, kPairs).confusions(),
            (std::vector<Cell>{{1, 2, 2}, {0, 1, 1}, {2, 0, 1}}));
}

TEST(ConfusionMatrixTest, RefusesClassesThatItDoesNotHave) {
  ConfusionMatrix matrix(3);
  expect_error([&] { matrix.add(3, 0); }, ErrorKind::Options,
               "ConfusionMatrix: expected a class of 0 to 2, found 3");
  expect_error([&] { matrix.add(0, -1); }, ErrorKind::Options, "found -1");
  expect_error([&] { matrix.add(0, 0, -2); }, ErrorKind::Options,
               "expected 0 samples or more, found -2");
  expect_error([] { ConfusionMatrix(-1); }, ErrorKind::Options,
               "expected 0 classes or more, found -1");
  EXPECT_EQ(matrix, ConfusionMatrix(3));
}

/// Samples for which a model that returns its input predicts what `pairs` say.
data::DatasetPtr set_of(const Pairs& pairs, std::int64_t classes) {
  std::vector<float> x;
  std::vector<std::int64_t> labels;
  for (const auto& [truth, predicted] : pairs) {
    for (std::int64_t i = 0; i < classes; ++i) {
      // No two samples have the same loss.
      x.push_back(i == predicted ? 1 + 0.125F * static_cast<float>(labels.size()) : 0);
    }
    labels.push_back(truth);
  }
  return std::make_shared<data::ArrayDataset>(
      std::vector<data::Field>{{"x", DataType::F32, {classes}}, {"label", DataType::I64, {}}},
      std::vector<data::Array>{data::array_of(x), data::array_of(labels)});
}

/// Cross-entropy of these samples, added in double precision.
double expected_loss(const Pairs& pairs, std::int64_t classes) {
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [truth, predicted] = pairs[i];
    const double largest = 1 + 0.125 * static_cast<double>(i);
    const double all = std::exp(largest) + static_cast<double>(classes - 1);
    sum += std::log(all) - (truth == predicted ? largest : 0);
  }
  return sum / static_cast<double>(pairs.size());
}

TEST(EvaluateClassesTest, CountsEverySampleOnceWithTheSameBitsOnAnyLayout) {
  std::mutex mutex;
  std::vector<Evaluation> found;
  for (const int instances : {1, 3, 8}) {
    run_job(instances, 8, [&](const Options& options) {
      // Four batches for eight replicas, the last one of two samples.
      EvaluationLoader loader(options, set_of(kPairs, 3), {.batch_size = 3});
      TrainingModel model(testing::matrix(torch::eye(3)), options, SGD());
      auto evaluation = model.evaluate_classes(loader);
      const auto plain = model.evaluate(loader);
      EXPECT_EQ(plain.loss, evaluation.loss);
      EXPECT_EQ(plain.accuracy, evaluation.accuracy);
      const std::lock_guard lock(mutex);
      found.push_back(std::move(evaluation));
    });
  }
  ASSERT_EQ(found.size(), 12U) << "every instance has the result";
  for (const auto& each : found) {
    EXPECT_EQ(each.samples, 11);
    EXPECT_EQ(each.confusion, confusion_of(3, kPairs));
    EXPECT_EQ(each.accuracy, 700.0 / 11);
    EXPECT_EQ(each.loss, found.front().loss);
  }
  EXPECT_NEAR(found.front().loss, expected_loss(kPairs, 3), 1e-6);
}

TEST(EvaluateClassesTest, CountsTheSamplesOfASubset) {
  const auto options = alone(2);
  EvaluationLoader loader(options, set_of(kPairs, 3), {.batch_size = 2, .limit = 5});
  TrainingModel model(testing::matrix(torch::eye(3)), options, SGD());
  EXPECT_EQ(model.evaluate_classes(loader).confusion.samples(), 5);
}

TEST(EvaluateClassesTest, RefusesAClassWithoutAnOutput) {
  const auto options = alone();
  EvaluationLoader loader(options, set_of({{0, 0}, {3, 1}}, 3), {.batch_size = 2});
  TrainingModel model(testing::matrix(torch::eye(3)), options, SGD());
  expect_error([&] { model.evaluate_classes(loader); }, ErrorKind::Data,
               "evaluate: expected classes of 0 to 2 in the field 'label', because the model has 3 "
               "outputs, found 3\n"
               "evaluate a model that has an output for each class of the dataset");
}

TEST(EvaluateClassesTest, RefusesAFieldThatHoldsNoClasses) {
  const auto data = testing::regression(4, 3, 3);
  const auto options = alone();
  EvaluationLoader loader(options, data.set(), {.batch_size = 2});
  TrainingModel model(testing::matrix(torch::eye(3)), options, SGD(), testing::regression_task());
  expect_error([&] { model.evaluate_classes(loader, "y"); }, ErrorKind::Options,
               "expected outputs [samples, classes] and whole numbers [samples] in the field 'y', "
               "found outputs [2, 3] and Float [2, 3]\n"
               "name the field that holds one class for each sample");
}

TEST(EvaluateClassesTest, WantsTheNameOfAField) {
  const auto options = alone();
  EvaluationLoader loader(options, set_of(kPairs, 3), {.batch_size = 2});
  TrainingModel model(testing::matrix(torch::eye(3)), options, SGD());
  expect_error([&] { model.evaluate_classes(loader, ""); }, ErrorKind::Options,
               "TrainingModel::evaluate_classes: expected the name of a field, found none");
}

}  // namespace
}  // namespace lockstep
