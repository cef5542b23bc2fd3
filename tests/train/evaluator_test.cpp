#include "lockstep/train/engine/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/sets/synthetic.h"
#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using testing::run_job;

constexpr std::int64_t kSamples = 10;
constexpr std::int64_t kBatch = 4;

EvaluationLoader loader_of(const Options& options) {
  return {options,
          data::synthetic({.size = kSamples, .classes = 3, .height = 2, .width = 2}),
          {.batch_size = kBatch, .workers = 0}};
}

/// A result that depends only on the number of the batch.
ReplicaResult result_of(const data::Batch& batch, bool has_classes) {
  const auto number = batch.place().batch;
  ReplicaResult result;
  result.loss = static_cast<double>(number + 1);
  result.metrics = {static_cast<double>(batch.size())};
  if (!has_classes) return result;
  result.classes = 3;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    result.truths.push_back(number);
    result.predictions.push_back(0);
  }
  return result;
}

TEST(EvaluatorTest, CombinesTheBatchesOfAllInstances) {
  for (const int instances : {1, 2, 3}) {
    run_job(instances, 3, [&](const Options& options) {
      auto loader = loader_of(options);
      std::int64_t done = 0;
      const Evaluator::OnBatch on_batch = [&](std::int64_t count) { done = count; };
      Evaluator evaluator(loader, {.class_field = "label"}, {100}, on_batch);
      while (const auto batch = evaluator.take()) evaluator.put(*batch, result_of(*batch, true));
      EXPECT_FALSE(evaluator.take().has_value()) << "the loader does not start again";
      EXPECT_EQ(done, loader.local_batches());
      const auto means = evaluator.finish(options.world().communicator());
      EXPECT_DOUBLE_EQ(means.loss, (4 * 1 + 4 * 2 + 2 * 3) / 10.0);
      EXPECT_THAT(means.metrics, ElementsAre(100.0));
      EXPECT_EQ(means.confusion.samples(), kSamples);
      EXPECT_EQ(means.confusion.count(2, 0), 2);
      EXPECT_EQ(means.confusion.correct(), 4);
    });
  }
}

TEST(EvaluatorTest, NoticesASampleThatNoInstanceHasEvaluated) {
  run_job(1, 3, [](const Options& options) {
    auto loader = loader_of(options);
    const Evaluator::OnBatch on_batch = [](std::int64_t) {};
    Evaluator evaluator(loader, {.class_field = "label"}, {}, on_batch);
    const auto batch = evaluator.take();
    auto result = result_of(*batch, true);
    result.metrics.clear();
    evaluator.put(*batch, result);
    testing::expect_error([&] { evaluator.finish(options.world().communicator()); }, ErrorKind::Bug,
                          "was not evaluated");
  });
}

}  // namespace
}  // namespace lockstep::train
