#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <latch>
#include <thread>

#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using testing::expect_error;
using testing::regression;
using testing::regression_task;
using testing::small_net;

/// Trains for an epoch of two steps.
template <typename Module>
void train(const Module& module, int replicas = 1, const Task& task = regression_task(),
           const Optimizer& optimizer = SGD()) {
  const auto options = alone(replicas);
  DataLoader loader(options, regression(4 * replicas, 6, 3).set(), {.batch_size = 2});
  TrainingModel model(module, options, optimizer, task);
  for (auto& iteration : loader) model.step(iteration);
}

void expect_refused(const std::function<void()>& action, const std::string& text) {
  expect_error(action, ErrorKind::Options, text);
}

struct EmptyImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x; }
};

TEST(RefusalTest, AModelWithNothingToLearn) {
  expect_refused([] { train(std::make_shared<EmptyImpl>()); },
                 "model: expected parameters to learn, found none");
  expect_refused(
      [] {
        train(small_net(), 1, regression_task(), SGD().group({.names = {"*"}, .frozen = true}));
      },
      "model: every parameter is frozen");
  const auto net = small_net();
  for (auto& parameter : net->parameters()) parameter.set_requires_grad(false);
  expect_refused([&] { train(net); }, "model: every parameter is frozen");
}

TEST(RefusalTest, NoModelAtAll) {
  expect_refused([] { TrainingModel(std::unique_ptr<nn::Model>(), alone(), SGD()); },
                 "TrainingModel: expected a model, found a null pointer");
  const auto* const null = "model: expected a module, found a null pointer";
  expect_refused([] { TrainingModel(std::shared_ptr<EmptyImpl>(), alone(), SGD()); }, null);
  expect_refused([] { TrainingModel(torch::nn::Linear(nullptr), alone(), SGD()); }, null);
  expect_refused([] { TrainingModel([] { return std::shared_ptr<EmptyImpl>(); }, alone(), SGD()); },
                 null);
  expect_refused([] { TrainingModel([] { return torch::nn::Linear(nullptr); }, alone(), SGD()); },
                 null);
}

TEST(RefusalTest, AFunctionThatMakesAnotherModelOnEachCall) {
  std::int64_t width = 8;
  expect_refused([&] { train([&] { return small_net(6, width++, 3); }, 2); },
                 "model: the function that makes it makes another model on each call: first with "
                 "'first.weight' [8, 6], then with 'first.weight' [9, 6]");
}

struct NotCloneableImpl : torch::nn::Module {
  NotCloneableImpl() { line = register_module("line", torch::nn::Linear(6, 3)); }
  at::Tensor forward(const at::Tensor& x) { return line(x); }
  torch::nn::Linear line{nullptr};
};

TEST(RefusalTest, AModuleThatCannotBeCloned) {
  for (const int replicas : {1, 2}) {
    expect_refused([&] { train(std::make_shared<NotCloneableImpl>(), replicas); },
                   "derive it from torch::nn::Cloneable, or hand over a function that makes one");
  }
}

TEST(RefusalTest, AModelWhoseFirstUseFailedBefore) {
  TrainingModel model(std::make_shared<EmptyImpl>(), alone(), SGD());
  expect_refused([&] { model.compile(); }, "model: expected parameters to learn, found none");
  expect_refused([&] { model.steps(); }, "TrainingModel: making it ready has failed before");
}

struct WordsImpl : torch::nn::Cloneable<WordsImpl> {
  explicit WordsImpl(bool sparse) : sparse_(sparse) { reset(); }
  void reset() override {
    words = register_module(
        "words", torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 3).sparse(sparse_)));
  }
  at::Tensor forward(const at::Tensor& x) {
    return words(x.slice(1, 0, 1).abs().clamp(0, 4).to(at::kLong)).squeeze(1);
  }
  bool sparse_;
  torch::nn::Embedding words{nullptr};
};

TEST(RefusalTest, SparseGradients) {
  expect_refused([] { train(std::make_shared<WordsImpl>(true)); },
                 "model: the gradient of 'words.weight' is sparse, and only dense ones are "
                 "combined\nbuild the embedding with sparse(false)");
  train(std::make_shared<WordsImpl>(false));
}

TEST(RefusalTest, ParametersAndBuffersThatAreNotOf32Bits) {
  const auto doubles = small_net();
  doubles->to(torch::kDouble);
  expect_refused([&] { train(doubles); },
                 "model: expected parameters of f32, found 'first.bias' of Double\n"
                 "module->to(torch::kFloat); 16-bit training keeps its weights in f32");
  const auto buffered = small_net();
  buffered->register_buffer("mean", torch::zeros({2}, at::kDouble));
  expect_refused([&] { train(buffered); },
                 "model: expected buffers of f32, found 'mean' of Double");
}

/// Counts what it sees in a buffer of whole numbers: steps, or positive samples.
struct CountingImpl : torch::nn::Cloneable<CountingImpl> {
  explicit CountingImpl(bool by_sample) : by_sample_(by_sample) { reset(); }
  void reset() override {
    line = register_module("line", torch::nn::Linear(6, 3));
    seen = register_buffer("seen", torch::zeros({}, at::kLong));
  }
  at::Tensor forward(const at::Tensor& x) {
    const torch::NoGradGuard no_grad;
    if (is_training()) seen += by_sample_ ? x.gt(0).sum() : torch::ones({}, at::kLong);
    const torch::AutoGradMode grad(true);
    return line(x);
  }
  bool by_sample_;
  torch::nn::Linear line{nullptr};
  at::Tensor seen;
};

TEST(RefusalTest, ReplicasThatDisagreeAboutWholeNumbers) {
  expect_refused([] { train(std::make_shared<CountingImpl>(true), 3); },
                 "model: replicas disagree about buffers of whole numbers, which cannot be "
                 "averaged: one of 'seen'");
  const auto steps = std::make_shared<CountingImpl>(false);
  train(steps, 3);
  EXPECT_EQ(steps->seen.item<std::int64_t>(), 2);
}

Task with_loss(Loss loss) {
  return {.loss = std::move(loss), .metrics = {}};
}

TEST(RefusalTest, LossesThatCannotBeLearnedFrom) {
  const auto refuses = [](const Loss& loss, const std::string& text) {
    expect_refused([&] { train(small_net(), 1, with_loss(loss)); }, text);
  };
  refuses([](const at::Tensor& output, const Fields&) { return output.square().mean(1); },
          "loss: expected one floating-point number, found Float [2]\nreturn the mean over the "
          "micro-batch");
  refuses([](const at::Tensor& output, const Fields&) { return output.argmax(); },
          "loss: expected one floating-point number, found Long []");
  refuses([](const at::Tensor& output, const Fields&) { return output.detach().mean(); },
          "loss: it does not depend on any parameter in a way that can be derived");
}

TEST(RefusalTest, MetricsThatAreNotOneNumberOrTooMany) {
  auto task = regression_task();
  const auto metric = [](const at::Tensor& output, const Fields&) { return output.sum(); };
  for (int i = 0; i < 8; ++i) task.metrics.push_back({"m", metric});
  train(small_net(), 1, task);
  task.metrics.push_back({"m", metric});
  expect_refused([&] { train(small_net(), 1, task); }, "Task: expected at most 8 metrics, found 9");
  task.metrics = {{"wide", [](const at::Tensor& output, const Fields&) { return output; }}};
  expect_refused([&] { train(small_net(), 1, task); },
                 "metric 'wide': expected one number, found [2, 3]");
}

TEST(RefusalTest, WhatLibtorchRefuses) {
  expect_refused([] { train(small_net(5), 1); },
                 "train: replica 0, step 1: libtorch refuses: mat1");
  TrainingModel model(small_net(), alone(), SGD());
  expect_refused([&] { model.predict(torch::ones({1, 4})); }, "predict: libtorch refuses: mat1");
  EvaluationLoader loader(alone(), regression(4, 5, 3).set(), {});
  expect_refused([&] { model.evaluate(loader); }, "evaluate: libtorch refuses: mat1");
}

TEST(RefusalTest, AnAverageThatIsNotKept) {
  const auto refuses = [](const std::function<void(TrainingModel&)>& ask) {
    TrainingModel model(small_net(), alone(), SGD(), regression_task());
    expect_refused([&] { ask(model); }, "TrainingModel: no average of the weights is kept\nAdamW");
  };
  EvaluationLoader loader(alone(), regression(4, 6, 3).set(), {});
  refuses([](auto& model) { model.digest(WeightsKind::Average); });
  refuses([](auto& model) { model.predict(torch::ones({1, 6}), WeightsKind::Average); });
  refuses([&](auto& model) { model.evaluate(loader, WeightsKind::Average); });
  refuses([](auto& model) { model.save("/nonexistent/x.pt", WeightsKind::Average); });
}

TEST(RefusalTest, ALoaderOfOtherOptions) {
  const auto set = regression(64, 6, 3).set();
  const auto refuses = [&](const Options& of_loader, const std::string& text) {
    DataLoader loader(of_loader, set, {.batch_size = 2});
    TrainingModel model(small_net(), alone(2), SGD(), regression_task());
    expect_refused([&] { model.step(*loader.begin()); },
                   "TrainingModel::step: expected a loader for " + text +
                       "\nmake loader and model from the same options");
  };
  refuses(alone(4), "2 replicas, found one for 4");
  refuses(alone(2).gradient_accumulation(3),
          "1 micro-batches of a step (gradient_accumulation), found one for 3");
  refuses(alone(2).device_iterations(3),
          "1 steps of an iteration (device_iterations), found one for 3");
}

TEST(RefusalTest, InstancesThatAreNotAlike) {
  const auto refuses = [](const std::function<TrainingModel(Options, bool)>& make,
                          const std::string& what) {
    expect_refused(
        [&] {
          testing::run_job(3, 3, [&](const Options& options) {
            make(options, options.world().instance() == 2).compile();
          });
        },
        "TrainingModel: expected the same " + what +
            " on every instance, found another on instance 2 than on instance 0");
  };
  refuses(
      [](const Options& options, bool is_other) {
        return TrainingModel(small_net(6, is_other ? 9 : 8), options, SGD());
      },
      "model");
  refuses(
      [](Options options, bool is_other) {
        return TrainingModel(small_net(), options.seed(is_other ? 9 : 8), SGD());
      },
      "options");
  refuses(
      [](const Options& options, bool is_other) {
        return TrainingModel(small_net(), options, SGD({.lr = is_other ? 0.1 : 0.2}));
      },
      "optimizer");
}

/// A device that is ahead waits until another takes its batches; where that one fails, for nothing.
TEST(RefusalTest, AnErrorOfOneDeviceOfTwoIsToldAtOnce) {
  auto data = regression(64, 6, 3);
  data.x[32][0] = 1000;  // the first sample of replica 1
  std::latch ahead(4);   // micro-batches of replica 0: no more while replica 1 is at its first
  Options options{World(testing::identity_of(0, 1, 2))};
  options.gradient_accumulation(32);
  DataLoader loader(options, data.set(), {});
  TrainingModel model(small_net(), options, SGD(),
                      with_loss([&](const at::Tensor& output, const Fields& fields) {
                        if (fields["x"].max().item<float>() == 1000) {
                          ahead.wait();
                          // Time for replica 0 to begin waiting: with less, this test might pass by
                          // accident.
                          std::this_thread::sleep_for(std::chrono::milliseconds(200));
                          return output;
                        }
                        if (!ahead.try_wait()) ahead.count_down();
                        return at::mse_loss(output, fields["y"]);
                      }));
  const auto begin = std::chrono::steady_clock::now();
  expect_refused([&] { model.step(*loader.begin()); }, "loss: expected one floating-point number");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace lockstep
