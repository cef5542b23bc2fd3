#include "lockstep/train/state/weight_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using testing::expect_close;
using testing::expect_same_bits;
using testing::SmallNetImpl;

constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kSteps = 24;  // three epochs of eight

const testing::Regression& data() {
  static const auto data = testing::regression(64, 6, 3);
  return data;
}

/// The weights after training here, one replica.
std::shared_ptr<SmallNetImpl> train_here(const Optimizer& optimizer, std::int64_t steps = kSteps) {
  const auto net = testing::small_net();
  const auto options = alone();
  DataLoader loader(options, data().set(), {.batch_size = kBatch});
  TrainingModel model(net, options, optimizer, testing::regression_task());
  while (true) {
    for (auto& iteration : loader) {
      if (model.steps() == steps) return net;
      model.step(iteration);
    }
  }
}

/// Gradients of one of the same steps, left in the parameters.
void compute_gradients(SmallNetImpl& net, std::int64_t step) {
  const auto first = step * kBatch % data().x.size(0);
  const auto type = net.first->weight.scalar_type();
  const auto x = data().x.slice(0, first, first + kBatch).to(type);
  const auto y = data().y.slice(0, first, first + kBatch).to(type);
  net.zero_grad();
  torch::mse_loss(net.forward(x), y).backward();
}

/// The weights after training with an optimizer of libtorch's.
std::shared_ptr<SmallNetImpl> train_there(
    const std::function<std::unique_ptr<torch::optim::Optimizer>(SmallNetImpl&)>& make,
    double clip_norm = 0) {
  const auto net = testing::small_net();
  const auto optimizer = make(*net);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    compute_gradients(*net, step);
    if (clip_norm > 0) torch::nn::utils::clip_grad_norm_(net->parameters(), clip_norm);
    optimizer->step();
  }
  return net;
}

template <typename Theirs, typename TheirOptions>
auto with(const TheirOptions& options) {
  return [options](SmallNetImpl& net) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<Theirs>(net.parameters(), options);
  };
}

void expect_equal(SmallNetImpl& found, SmallNetImpl& expected, double relative = 1e-5) {
  const auto before = testing::small_net()->named_parameters();
  const auto theirs = expected.named_parameters();
  for (const auto& entry : found.named_parameters()) {
    const auto& wanted = theirs[entry.key()];
    expect_close(entry.value().to(at::kDouble), wanted.to(at::kDouble), relative, entry.key());
    EXPECT_GT(
        (wanted.to(at::kDouble) - before[entry.key()].to(at::kDouble)).abs().max().item<double>(),
        1e-3)
        << entry.key() << " has not moved";
  }
}

struct SameAsLibtorch {
  std::string name;
  Optimizer ours;
  std::function<std::unique_ptr<torch::optim::Optimizer>(SmallNetImpl&)> theirs;
  double clip_norm = 0;
};
void PrintTo(const SameAsLibtorch& it, std::ostream* out) {
  *out << it.name;
}

class SameAsLibtorchTest : public ::testing::TestWithParam<SameAsLibtorch> {};

TEST_P(SameAsLibtorchTest, EqualWithinRounding) {
  expect_equal(*train_here(GetParam().ours), *train_there(GetParam().theirs, GetParam().clip_norm));
}

using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

INSTANTIATE_TEST_SUITE_P(
    WeightUpdateTest, SameAsLibtorchTest,
    ::testing::Values(
        SameAsLibtorch{"Sgd", SGD({.lr = 0.1}), with<torch::optim::SGD>(SGDOptions(0.1))},
        SameAsLibtorch{"SgdWithMomentum", SGD({.lr = 0.05, .momentum = 0.9}),
                       with<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9))},
        SameAsLibtorch{"SgdWithNesterovAndDecay",
                       SGD({.lr = 0.05, .momentum = 0.9, .weight_decay = 0.02, .nesterov = true}),
                       with<torch::optim::SGD>(
                           SGDOptions(0.05).momentum(0.9).weight_decay(0.02).nesterov(true))},
        SameAsLibtorch{"Adam", Adam({.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1}),
                       with<torch::optim::Adam>(
                           torch::optim::AdamOptions(0.01).betas({0.8, 0.95}).weight_decay(0.1))},
        SameAsLibtorch{"AdamW", AdamW({.lr = 0.01, .weight_decay = 0.3}),
                       with<torch::optim::AdamW>(AdamWOptions(0.01).weight_decay(0.3))},
        SameAsLibtorch{"ClippedAtEveryStep", SGD({.lr = 0.1}).clip_norm(0.25),
                       with<torch::optim::SGD>(SGDOptions(0.1)), 0.25},
        SameAsLibtorch{"ClippedAtFirst", SGD({.lr = 0.1, .momentum = 0.5}).clip_norm(1.5),
                       with<torch::optim::SGD>(SGDOptions(0.1).momentum(0.5)), 1.5}),
    [](const auto& one) { return one.param.name; });

/// You et al., algorithm 2, in double.
std::shared_ptr<SmallNetImpl> train_with_lamb(const AdamOptions& options, std::int64_t steps) {
  const auto net = testing::small_net();
  net->to(torch::kDouble);
  std::vector<at::Tensor> first, second;
  for (const auto& weight : net->parameters()) {
    first.push_back(torch::zeros_like(weight));
    second.push_back(torch::zeros_like(weight));
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    compute_gradients(*net, step);
    const torch::NoGradGuard no_grad;
    const auto count = static_cast<double>(step + 1);
    for (std::size_t i = 0; i < first.size(); ++i) {
      auto weight = net->parameters()[i];
      const auto gradient = weight.grad();
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * gradient;
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * gradient * gradient;
      const auto mean = first[i] / (1 - std::pow(options.beta1, count));
      const auto deviation = (second[i] / (1 - std::pow(options.beta2, count))).sqrt();
      const auto direction = mean / (deviation + options.epsilon) + options.weight_decay * weight;
      weight -= options.lr * weight.norm() / direction.norm() * direction;
    }
  }
  return net;
}

TEST(WeightUpdateTest, LambIsThatOfThePaper) {
  constexpr AdamOptions kOptions{.lr = 0.02, .weight_decay = 0.05};
  expect_equal(*train_here(LAMB(kOptions), 12), *train_with_lamb(kOptions, 12), 1e-4);
}

TEST(WeightUpdateTest, GroupsHaveRatesAndDecaysOfTheirOwn) {
  const auto ours = SGD({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01})
                        .group({.names = {"second.bias"}, .weight_decay = 0.5})
                        .group({.names = {"second.*"}, .lr = 0.02});
  const auto theirs = [](SmallNetImpl& net) -> std::unique_ptr<torch::optim::Optimizer> {
    const auto options = [](double lr, double decay) {
      return std::make_unique<SGDOptions>(SGDOptions(lr).momentum(0.9).weight_decay(decay));
    };
    using Group = torch::optim::OptimizerParamGroup;
    const std::vector<Group> groups{Group(net.first->parameters(), options(0.1, 0.01)),
                                    Group({net.second->bias}, options(0.1, 0.5)),
                                    Group({net.second->weight}, options(0.02, 0.01))};
    return std::make_unique<torch::optim::SGD>(groups, SGDOptions(0.1));
  };
  expect_equal(*train_here(ours), *train_there(theirs));
}

TEST(WeightUpdateTest, DecaysMatricesAlone) {
  const auto theirs = [](SmallNetImpl& net) -> std::unique_ptr<torch::optim::Optimizer> {
    using Group = torch::optim::OptimizerParamGroup;
    const auto options = [](double decay) {
      return std::make_unique<AdamWOptions>(AdamWOptions(0.01).weight_decay(decay));
    };
    const std::vector<Group> groups{Group({net.first->weight, net.second->weight}, options(0.5)),
                                    Group({net.first->bias, net.second->bias}, options(0))};
    return std::make_unique<torch::optim::AdamW>(groups, AdamWOptions(0.01));
  };
  expect_equal(*train_here(AdamW({.lr = 0.01, .weight_decay = 0.5}).decay(DecayOf::Matrices)),
               *train_there(theirs));
}

TEST(WeightUpdateTest, FrozenParametersStayToTheBitAndTheOthersLearn) {
  const auto frozen = train_here(
      SGD({.lr = 0.1, .weight_decay = 0.1}).group({.names = {"first.*"}, .frozen = true}));
  const auto before = testing::small_net();
  expect_same_bits(frozen->first->weight, before->first->weight);
  expect_same_bits(frozen->first->bias, before->first->bias);
  EXPECT_GT((frozen->second->weight - before->second->weight).abs().min().item<float>(), 0);
}

TEST(WeightUpdateTest, AGroupThatFitsNothingIsRefused) {
  testing::expect_error(
      [] { train_here(SGD().group({.names = {"frist.*"}, .lr = 1})); }, ErrorKind::Options,
      "SGD: expected a group of parameters, found none that fits 'frist.*'\ndid you mean "
      "'first.bias'?");
}

TEST(WeightUpdateTest, AveragesWeightsStepByStep) {
  const auto data = testing::regression(12, 4, 3);
  const auto options = alone();
  DataLoader loader(options, data.set(), {.batch_size = 3});
  TrainingModel model(testing::matrix(torch::full({4, 3}, 0.5)), options,
                      SGD({.lr = 0.1}).average_weights(0.75), testing::regression_task());
  auto average = torch::full({4, 3}, 0.5, at::kDouble);
  expect_close(testing::matrix_of(model, 4, WeightsKind::Average), average.to(at::kFloat), 0);
  for (auto& iteration : loader) {
    model.step(iteration);
    average = 0.75 * average + 0.25 * testing::matrix_of(model, 4).to(at::kDouble);
    expect_close(testing::matrix_of(model, 4, WeightsKind::Average), average.to(at::kFloat), 1e-6);
  }
  EXPECT_EQ(model.steps(), 4);
  EXPECT_NE(model.digest(WeightsKind::Average), model.digest());
}

TEST(WeightUpdateTest, TakesAnOptimizerOfTheUsers) {
  constexpr float kRate = 0.015625F;
  const auto sign =
      custom_optimizer({.lr = kRate, .update = [](const Slice& slice, const UpdateFacts& facts) {
                          for (std::size_t i = 0; i < slice.weights.size(); ++i) {
                            const float gradient = slice.gradient[i];
                            const float step = static_cast<float>(facts.lr) *
                                               static_cast<float>((gradient > 0) - (gradient < 0));
                            slice.next_weights[i] = slice.weights[i] - step;
                          }
                        }});
  const auto found = train_here(sign);
  const auto expected = testing::small_net();
  for (std::int64_t step = 0; step < kSteps; ++step) {
    compute_gradients(*expected, step);
    const torch::NoGradGuard no_grad;
    for (auto& weight : expected->parameters()) weight.sub_(weight.grad().sign() * kRate);
  }
  const auto theirs = expected->named_parameters();
  for (const auto& entry : found->named_parameters()) {
    expect_same_bits(entry.value(), theirs[entry.key()], entry.key());
  }
}

TEST(WeightUpdateTest, HandsAnOptimizerOfTheUsersItsStateBack) {
  // One number counts the steps, the other adds up gradients: weights are a function of both.
  const auto counting = custom_optimizer(
      {.num_states = 2, .update = [](const Slice& slice, const UpdateFacts& facts) {
         for (std::size_t i = 0; i < slice.weights.size(); ++i) {
           EXPECT_EQ(slice.state[0][i], static_cast<float>(facts.count - 1)) << facts.parameter;
           slice.next_state[0][i] = slice.state[0][i] + 1;
           slice.next_state[1][i] = slice.state[1][i] + slice.gradient[i];
           slice.next_weights[i] = slice.weights[i] + slice.state[1][i];
         }
       }});
  const auto net = testing::matrix(torch::ones({2, 1}));
  const auto data = testing::regression(3, 2, 1);
  const auto options = alone();
  DataLoader loader(options, data.set(), {});
  TrainingModel model(net, options, counting, testing::regression_task());
  auto weights = torch::ones({2, 1});
  auto sum = torch::zeros({2, 1});
  for (auto& iteration : loader) {
    model.step(iteration);
    const auto i = iteration.number;
    const auto x = data.x.slice(0, i, i + 1);
    const auto gradient = 2 * x.t().matmul(x.matmul(weights) - data.y.slice(0, i, i + 1));
    weights = weights + sum;
    sum = sum + gradient;
    expect_close(testing::matrix_of(model, 2), weights, 1e-6);
  }
}

/// A line, and another one that only samples with x[0] > 0 use.
struct LateImpl : torch::nn::Cloneable<LateImpl> {
  LateImpl() { reset(); }
  void reset() override {
    always = register_module("always", torch::nn::Linear(2, 1));
    late = register_module("late", torch::nn::Linear(2, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return x[0][0].item<float>() > 0 ? always(x) + late(x) : always(x);
  }
  torch::nn::Linear always{nullptr}, late{nullptr};
};

TEST(WeightUpdateTest, CountsTheUpdatesOfEachParameterAsLibtorchDoes) {
  const testing::Regression data{
      torch::tensor({{-1.F, 2.F}, {-2.F, 1.F}, {-1.F, 3.F}, {1.F, 3.F}, {-1.F, 1.F}, {2.F, 1.F}}),
      torch::full({6, 1}, 3.F)};
  const auto ours = nn::make_seeded(1, [] { return std::make_shared<LateImpl>(); });
  const auto theirs = std::dynamic_pointer_cast<LateImpl>(ours->clone());
  {
    const auto options = alone();
    DataLoader loader(options, data.set(), {});
    TrainingModel model(ours, options, Adam({.lr = 0.1}), testing::regression_task());
    model.tell([](const std::string&) {});
    for (auto& iteration : loader) model.step(iteration);
  }
  torch::optim::Adam optimizer(theirs->parameters(), torch::optim::AdamOptions(0.1));
  for (std::int64_t i = 0; i < 6; ++i) {
    for (auto& parameter : theirs->parameters()) parameter.mutable_grad().reset();
    torch::mse_loss(theirs->forward(data.x.slice(0, i, i + 1)), data.y.slice(0, i, i + 1))
        .backward();
    optimizer.step();
  }
  expect_close(ours->always->weight, theirs->always->weight, 1e-5);
  expect_close(ours->late->weight, theirs->late->weight, 1e-5);
  expect_close(ours->late->bias, theirs->late->bias, 1e-5);
}

TEST(WeightUpdateTest, FollowsTheScheduleFromWarmUpToTheEnd) {
  std::vector<double> rates;
  std::vector<std::int64_t> counts;
  const auto recording = custom_optimizer(
      {.lr = 0.5, .update = [&](const Slice& slice, const UpdateFacts& facts) {
         rates.push_back(facts.lr);
         counts.push_back(facts.count);
         std::copy(slice.weights.begin(), slice.weights.end(), slice.next_weights.begin());
       }});
  const auto options =
      alone().device_iterations(2).schedule({.kind = ScheduleKind::Linear, .warmup_epochs = 1}, 3);
  DataLoader loader(options, testing::regression(4, 2, 1).set(), {});
  TrainingModel model(testing::matrix(torch::ones({2, 1})), options, recording,
                      testing::regression_task());
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (auto& iteration : loader) model.step(iteration);
  }
  // Warm-up is an epoch of four steps; then eight steps down to nothing.
  const std::vector<double> factors{0.25, 0.5,   0.75, 1,     1,    0.875,
                                    0.75, 0.625, 0.5,  0.375, 0.25, 0.125};
  ASSERT_EQ(rates.size(), factors.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(rates[i], 0.5 * factors[i], 1e-12) << i;
    EXPECT_EQ(counts[i], static_cast<std::int64_t>(i) + 1);
  }
}

/// More than any cache holds is written past the caches, by another path.
TEST(WeightUpdateTest, LargeStatesGetTheUpdateOfSmallOnes) {
  constexpr std::int64_t kIn = 1300, kOut = 1201;  // whose pieces do not divide
  const auto data = testing::regression(8, kIn, kOut);
  const auto start = nn::make_seeded(3, [] { return 0.05 * torch::randn({kIn, kOut}); });
  const auto ours = testing::matrix(start);
  {
    const auto options = alone();
    DataLoader loader(options, data.set(), {.batch_size = 2});
    TrainingModel model(ours, options, AdamW({.lr = 0.01, .weight_decay = 0.1}).clip_norm(1),
                        testing::regression_task());
    for (auto& iteration : loader) model.step(iteration);
    EXPECT_GT(model.memory().weights + model.memory().optimizer, 1 << 24)
        << "too small to be written past caches";
  }
  const auto theirs = testing::matrix(start);
  torch::optim::AdamW optimizer(theirs->parameters(), AdamWOptions(0.01).weight_decay(0.1));
  for (std::int64_t i = 0; i < 4; ++i) {
    theirs->zero_grad();
    torch::mse_loss(theirs->forward(data.x.slice(0, 2 * i, 2 * i + 2)),
                    data.y.slice(0, 2 * i, 2 * i + 2))
        .backward();
    torch::nn::utils::clip_grad_norm_(theirs->parameters(), 1);
    optimizer.step();
  }
  expect_close(ours->weight, theirs->weight, 1e-5);
}

}  // namespace
}  // namespace lockstep
