#include "lockstep/train/api/training_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::expect_close;
using testing::expect_same_bits;
using testing::matrix;
using testing::matrix_of;
using testing::regression;
using testing::regression_task;
using testing::small_net;

TEST(TrainingModelTest, FindsTheLineOfARegressionOnNamedFields) {
  const auto data = regression(64, 4, 2);
  const auto options = alone(2);
  DataLoader loader(options, data.set(), {.batch_size = 16, .shuffle = true});
  TrainingModel model(matrix(torch::zeros({4, 2})), options, SGD({.lr = 0.5}), regression_task());
  // The whole set in each of two steps: the mean of their gradients vanishes at least squares.
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (auto& iteration : loader) model.step(iteration);
  }
  const auto whole = alone(2);
  DataLoader all(whole, data.set(), {.batch_size = 32, .shuffle = true});
  TrainingModel exact(matrix(matrix_of(model, 4)), whole, SGD({.lr = 0.5}), regression_task());
  StepResult last;
  for (int epoch = 0; epoch < 100; ++epoch) {
    for (auto& iteration : all) last = exact.step(iteration);
  }
  const auto squares = std::get<0>(at::linalg_lstsq(data.x, data.y));
  expect_close(matrix_of(exact, 4), squares, 1e-4);
  EXPECT_NEAR(last.loss, at::mse_loss(data.x.matmul(squares), data.y).item<double>(), 1e-5);
  EXPECT_TRUE(std::isnan(last.accuracy)) << "there is no metric 'acc'";
}

/// The mean of the embeddings of a sentence's words, and a linear layer. Takes [length, word, …].
struct BagOfWordsImpl : torch::nn::Cloneable<BagOfWordsImpl> {
  BagOfWordsImpl() { reset(); }
  void reset() override {
    embedding = register_module("embedding", torch::nn::Embedding(20, 6));
    head = register_module("head", torch::nn::Linear(6, 3));
  }
  at::Tensor forward(const at::Tensor& input) {
    const auto lengths = input.slice(1, 0, 1);
    const auto words = input.slice(1, 1);
    const auto is_word = torch::arange(words.size(1)).unsqueeze(0).lt(lengths).unsqueeze(2);
    return head((embedding(words) * is_word).sum(1) / lengths);
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear head{nullptr};
};

/// Sentences of 1 to 7 words of one kind (word % 3) that is the label, with rubbish behind them.
data::DatasetPtr sentences() {
  constexpr std::int64_t kSentences = 240, kWords = 7;
  std::vector<std::int32_t> words;
  std::vector<std::int64_t> lengths, labels;
  for (std::int64_t i = 0; i < kSentences; ++i) {
    labels.push_back(i % 3);
    lengths.push_back(1 + i % kWords);
    for (std::int64_t k = 0; k < kWords; ++k) {
      const auto word = k < lengths.back() ? 3 * ((i * 5 + k) % 6) + labels.back() : 19;
      words.push_back(static_cast<std::int32_t>(word));
    }
  }
  return std::make_shared<data::ArrayDataset>(
      std::vector<data::Field>{{"tokens", DataType::I32, {kWords}, data::FieldKind::Varying},
                               {"label", DataType::I64}},
      std::vector<data::Array>{data::array_of(words, lengths), data::array_of(labels)});
}

TEST(TrainingModelTest, LearnsFromSentencesOfManyLengths) {
  const auto words_of = [](const Fields& fields) {
    return torch::cat({fields["tokens.length"].unsqueeze(1), fields["tokens"].to(at::kLong)}, 1);
  };
  const auto options = alone(2).seed(4);
  DataLoader loader(options, sentences(), {.batch_size = 10, .shuffle = true});
  EvaluationLoader test(options, sentences(), {.batch_size = 7});
  TrainingModel model([] { return std::make_shared<BagOfWordsImpl>(); }, options,
                      Adam({.lr = 0.03}), {.input = words_of});
  EXPECT_LT(model.evaluate(test).accuracy, 80);
  for (int epoch : model.epochs(12)) {
    for (auto& iteration : loader) model.step(iteration);
    EXPECT_EQ(model.steps(), 12 * epoch);
  }
  EXPECT_EQ(model.evaluate(test).accuracy, 100);
  EXPECT_GT(model.epoch_so_far().accuracy, 95);
}

/// As `SmallNet`, but libtorch cannot clone it.
struct PlainNetImpl : torch::nn::Module {
  PlainNetImpl() {
    first = register_module("first", torch::nn::Linear(6, 8));
    second = register_module("second", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};
TORCH_MODULE(PlainNet);

/// The digest after two epochs over three replicas.
template <typename Module>
std::string trained_digest(const Module& module, const Options& options,
                           const Optimizer& optimizer = SGD({.lr = 0.05, .momentum = 0.9})) {
  DataLoader loader(options, regression(48, 6, 3).set(), {.batch_size = 4, .shuffle = true});
  TrainingModel model(module, options, optimizer, regression_task());
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& iteration : loader) model.step(iteration);
  }
  return model.digest();
}

TEST(TrainingModelTest, TakesAModuleAFunctionOrAHolderAlike) {
  const auto expected = trained_digest(small_net(), alone(3).seed(7));
  int calls = 0;
  const auto make = [&] {
    ++calls;
    return std::make_shared<PlainNetImpl>();
  };
  EXPECT_EQ(trained_digest(make, alone(3).seed(7)), expected);
  EXPECT_EQ(calls, 4) << "once for the user, and once for each replica";
  EXPECT_EQ(trained_digest([] { return PlainNet(); }, alone(3).seed(7)), expected);
  EXPECT_NE(trained_digest([] { return PlainNet(); }, alone(3).seed(8)), expected);
}

TEST(TrainingModelTest, TakesHoldersAndTrainsTheModuleBehindThem) {
  torch::nn::Sequential layers(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
  torch::nn::Linear layer(6, 3);
  const auto before = layer->weight.clone();
  trained_digest(layers, alone(2));
  trained_digest(layer, alone(2));
  EXPECT_GT((layer->weight - before).abs().max().item<float>(), 0.01);
}

/// Two layers of one weight: one parameter under two names, or two that share memory.
struct TwiceImpl : torch::nn::Cloneable<TwiceImpl> {
  TwiceImpl() { reset(); }
  void reset() override {
    first = register_parameter("first", 0.3 * torch::eye(6) + 0.1);
    second = register_parameter("second", torch::zeros({6, 6}));
  }
  void tie() { second.set_data(first.data()); }
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(x.matmul(first)).matmul(second); }
  at::Tensor first, second;
};

TEST(TrainingModelTest, TiedParametersStayTiedAndLearnFromBothGradients) {
  const auto data = regression(24, 6, 6);
  const auto net = std::make_shared<TwiceImpl>();
  net->tie();
  {
    const auto options = alone(3);
    DataLoader loader(options, data.set(), {.batch_size = 2});
    TrainingModel model(net, options, SGD({.lr = 0.1, .momentum = 0.9}), regression_task());
    for (auto& iteration : loader) model.step(iteration);
    EXPECT_EQ(model.steps(), 4);
  }
  EXPECT_EQ(net->first.data_ptr(), net->second.data_ptr());
  auto weight = (0.3 * torch::eye(6) + 0.1).requires_grad_();
  torch::optim::SGD theirs({weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (std::int64_t step = 0; step < 4; ++step) {
    theirs.zero_grad();
    const auto x = data.x.slice(0, 6 * step, 6 * step + 6);
    at::mse_loss(torch::tanh(x.matmul(weight)).matmul(weight),
                 data.y.slice(0, 6 * step, 6 * step + 6))
        .backward();
    theirs.step();
  }
  expect_close(net->first, weight, 1e-5);
}

IterationResult run_iteration(const Options& options, std::vector<StepResult>* heard = nullptr) {
  DataLoader loader(options, regression(24, 6, 3).set(), {.batch_size = 2});
  TrainingModel model(small_net(), options, SGD({.lr = 0.1}), regression_task());
  model.on_step([&](std::int64_t step, const StepResult& result) {
    if (heard == nullptr) return;
    heard->push_back(result);
    EXPECT_EQ(step, std::ssize(*heard));
  });
  return model.step(*loader.begin());
}

TEST(TrainingModelTest, TellsOfTheStepsThatTheOutputModeNames) {
  const auto options = alone(2).device_iterations(6);
  std::vector<StepResult> all;
  const auto final = run_iteration(options, &all);
  ASSERT_EQ(all.size(), 6U);
  const auto losses_of = [](const IterationResult& result) {
    std::vector<double> losses;
    for (const auto& step : result.steps) losses.push_back(step.loss);
    return losses;
  };
  EXPECT_NE(all[4].loss, all[5].loss);
  EXPECT_THAT(losses_of(final), ElementsAre(all[5].loss));
  EXPECT_EQ(final.loss, all[5].loss);
  EXPECT_EQ(final.replica_losses, all[5].replica_losses);
  EXPECT_EQ(final.loss, (static_cast<double>(final.replica_losses[0]) +
                         static_cast<double>(final.replica_losses[1])) /
                            2);

  const auto every = run_iteration(Options(options).output(OutputMode::All));
  EXPECT_THAT(losses_of(every), ElementsAre(all[0].loss, all[1].loss, all[2].loss, all[3].loss,
                                            all[4].loss, all[5].loss));
  EXPECT_EQ(every.loss, all[5].loss);

  const auto second = run_iteration(Options(options).output(OutputMode::EveryN, 2));
  EXPECT_THAT(losses_of(second), ElementsAre(all[1].loss, all[3].loss, all[5].loss));
  const auto fourth = run_iteration(Options(options).output(OutputMode::EveryN, 4));
  EXPECT_THAT(losses_of(fourth), ElementsAre(all[3].loss));
  EXPECT_EQ(fourth.loss, all[3].loss);

  const auto sum = run_iteration(Options(options).output(OutputMode::Sum));
  double loss = 0;
  float of_replica_1 = 0;
  for (const auto& step : all) loss += step.loss, of_replica_1 += step.replica_losses[1];
  ASSERT_EQ(sum.steps.size(), 1U);
  EXPECT_EQ(sum.loss, loss);
  EXPECT_EQ(sum.replica_losses[1], of_replica_1);
}

TEST(TrainingModelTest, ShowsTheMeanOfTheEpochSoFar) {
  const auto options = alone();
  DataLoader loader(options, regression(24, 6, 3).set(), {.batch_size = 8});
  auto task = regression_task();
  task.metrics.push_back(
      {.name = "y",
       .sum = [](const at::Tensor&, const Fields& fields) { return fields["y"].mean(1).sum(); },
       .scale = 10});
  TrainingModel model(small_net(), options, SGD(), task);
  for (int epoch = 0; epoch < 2; ++epoch) {
    double losses = 0;
    for (auto& iteration : loader) {
      const auto result = model.step(iteration);
      losses += result.loss;
      const auto first = 8 * iteration.number;
      const auto mean = regression(24, 6, 3).y.slice(0, first, first + 8).mean().item<double>();
      ASSERT_EQ(result.metrics.size(), 1U);
      EXPECT_EQ(result.metrics[0].name, "y");
      EXPECT_NEAR(result.metrics[0].value, 10 * mean, 1e-5);
      EXPECT_NEAR(model.epoch_so_far().loss, losses / static_cast<double>(iteration.number + 1),
                  1e-12);
    }
    EXPECT_NEAR(model.epoch_so_far().metrics[0].value,
                10 * regression(24, 6, 3).y.mean().item<double>(), 1e-5);
  }
}

TEST(TrainingModelTest, CountsWhereTheTimeOfStepsGoes) {
  const auto options = alone(3).device_iterations(2).gradient_accumulation(2);
  DataLoader loader(options, regression(48, 6, 3).set(), {.batch_size = 2});
  TrainingModel model(small_net(), options, SGD(), regression_task());
  EXPECT_EQ(model.perf().step.count, 0);
  for (auto& iteration : loader) model.step(iteration);
  const auto perf = model.perf();
  EXPECT_EQ(perf.step.count, 4);
  EXPECT_GT(perf.compute.min, 0);
  EXPECT_LE(perf.compute.min, perf.compute.mean());
  EXPECT_LE(perf.compute.mean(), perf.compute.max);
  EXPECT_NEAR(perf.step.mean() * 4, perf.step.total, 1e-12);
  const auto phases = perf.data.total + perf.compute.total + perf.reduce.total + perf.idle.total;
  EXPECT_NEAR(phases, perf.step.total, 0.2 * perf.step.total);
  model.reset_perf();
  EXPECT_EQ(model.perf().step.count, 0);
  EXPECT_EQ(model.perf().compute.total, 0);
}

TEST(TrainingModelTest, SavesAndLoadsAndTheOptimizerBeginsAnew) {
  const testing::ScratchFolder folder;
  const auto file = folder.path() + "/net.safetensors";
  const auto data = regression(24, 6, 3);
  const auto momentum = SGD({.lr = 0.05, .momentum = 0.9});
  const auto options = alone(2);
  const auto train = [&](TrainingModel& model) {
    DataLoader loader(options, data.set(), {.batch_size = 3});
    for (auto& iteration : loader) model.step(iteration);
    return model.digest();
  };
  const auto made = small_net();
  TrainingModel first(made, options, momentum, regression_task());
  const auto before = train(first);
  first.save(file);
  EXPECT_EQ(first.digest(), before) << "saving changes nothing";
  const auto prediction = first.predict(data.x);

  TrainingModel second(
      nn::make_seeded(99, [] { return std::make_shared<testing::SmallNetImpl>(6, 8, 3); }), options,
      momentum, regression_task());
  train(second);
  EXPECT_NE(second.digest(), before);
  second.load(file);
  EXPECT_EQ(second.digest(), before);
  EXPECT_EQ(second.digests(), first.digests());
  EXPECT_EQ(second.digests().front().first, "first.bias");
  EXPECT_EQ(second.steps(), 0);
  expect_same_bits(second.predict(data.x), prediction);

  first.load(file);
  EXPECT_EQ(first.digest(), before);
  EXPECT_EQ(train(first), train(second)) << "both go on without a momentum";
}

TEST(TrainingModelTest, LeavesTheTrainedWeightsInTheModuleThatWasHandedOver) {
  const auto net = small_net();
  const auto data = regression(24, 6, 3);
  std::string digest;
  at::Tensor prediction;
  {
    const auto options = alone(2);
    DataLoader loader(options, data.set(), {.batch_size = 3});
    TrainingModel model(net, options, SGD(), regression_task());
    for (auto& iteration : loader) model.step(iteration);
    prediction = model.predict(data.x);
    digest = model.digest();
    EXPECT_FALSE(prediction.requires_grad());
  }
  const torch::NoGradGuard no_grad;
  expect_same_bits(net->forward(data.x), prediction);
  EXPECT_TRUE(net->first->weight.requires_grad());
  net->first->weight.fill_(1);  // memory of its own, that can be written
  TrainingModel again(net, alone(), SGD(), regression_task());
  EXPECT_NE(again.digest(), digest);
}

/// A branch that nothing uses, and one that only samples with x[0] > 0 use.
struct BranchesImpl : torch::nn::Cloneable<BranchesImpl> {
  BranchesImpl() { reset(); }
  void reset() override {
    used = register_module("used", torch::nn::Linear(2, 1));
    unused = register_module("unused", torch::nn::Linear(2, 1));
    some = register_module("some", torch::nn::Linear(2, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return x[0][0].item<float>() > 0 ? used(x) + some(x) : used(x);
  }
  torch::nn::Linear used{nullptr}, unused{nullptr}, some{nullptr};
};

TEST(TrainingModelTest, LeavesParametersWithoutAGradientUntouchedAndNamesThemOnce) {
  const auto net = std::make_shared<BranchesImpl>();
  const auto before = std::dynamic_pointer_cast<BranchesImpl>(net->clone());
  const testing::Regression data{torch::tensor({{-1.F, 2.F}, {-2.F, 1.F}, {-1.F, 3.F}, {1.F, 3.F}}),
                                 torch::ones({4, 1})};
  std::vector<std::string> told;
  {
    const auto options = alone(2);
    DataLoader loader(options, data.set(), {});
    TrainingModel model(net, options, SGD({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}),
                        regression_task());
    model.tell([&](const std::string& text) { told.push_back(text); });
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto& iteration : loader) model.step(iteration);
    }
  }
  EXPECT_THAT(
      told, ElementsAre("no replica has a gradient for these parameters, so they are not updated: "
                        "some.bias, some.weight, unused.bias, unused.weight"));
  expect_same_bits(net->unused->weight, before->unused->weight);
  expect_same_bits(net->unused->bias, before->unused->bias);
  EXPECT_NE(net->used->bias.item<float>(), before->used->bias.item<float>());
  const auto& last = net->some->weight;
  EXPECT_FALSE(last.equal(before->some->weight)) << "one replica had a gradient in a second step";
}

TEST(TrainingModelTest, ModulesThatForbidGradientsFreezeTheirParameters) {
  const auto net = small_net();
  net->first->bias.set_requires_grad(false);
  const auto expected =
      trained_digest(small_net(), alone(2), SGD().group({.names = {"first.bias"}, .frozen = true}));
  EXPECT_EQ(trained_digest(net, alone(2), SGD()), expected);
  expect_same_bits(net->first->bias, small_net()->first->bias);
}

}  // namespace
}  // namespace lockstep
