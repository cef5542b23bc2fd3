#include "lockstep/train/strategy/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using comm::ReduceOp;
using testing::alone;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::expect_close;
using testing::expect_error;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::run_job;
using testing::small_net;
using testing::SmallNetImpl;

TEST(StrategyTest, GivesAsManyReplicasAsDevicesDividedByStages) {
  EXPECT_EQ(LocalStrategy(alone()).num_replicas_in_sync(), 1);
  EXPECT_EQ(LocalStrategy(alone()).devices(4).num_replicas_in_sync(), 4);
  EXPECT_EQ(LocalStrategy(alone().devices_per_replica(2)).devices(4).num_replicas_in_sync(), 2);
  EXPECT_EQ(DistributedStrategy(alone()).devices(3).num_local_replicas(), 3);
}

TEST(StrategyTest, RefusesDevicesThatDoNotDivideOrComeTooLate) {
  expect_error([] { LocalStrategy(alone().devices_per_replica(2)).devices(7); }, ErrorKind::Options,
               "expected a multiple of 2 devices per replica, found 7\ndevices(6)");
  expect_error([] { LocalStrategy(alone().devices_per_replica(2)).devices(1); }, ErrorKind::Options,
               "found 1\ndevices(2)");
  LocalStrategy strategy(alone());
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  expect_error([&] { strategy.devices(2); }, ErrorKind::Options,
               "in use by a Strategy and cannot be changed");
}

TEST(StrategyTest, ComparesDevicesWithWhatTheLauncherHasSet) {
  run_job(
      2, 4,
      [](const Options& options) {
        EXPECT_EQ(DistributedStrategy(options).devices(8).num_replicas_in_sync(), 4);
        expect_error([&] { DistributedStrategy(options).devices(4); }, ErrorKind::Options,
                     "expected 8 devices for the 4 replicas that the launcher has set, found 4\n"
                     "start it with 'lockstep run --num-replicas 2'");
      },
      /*stages=*/2);
}

TEST(StrategyTest, ALocalOneIsNotForSeveralInstances) {
  run_job(2, 2, [](const Options& options) {
    expect_error([&] { LocalStrategy{options}; }, ErrorKind::Options,
                 "LocalStrategy: expected one instance, found 2\nuse DistributedStrategy");
  });
}

TEST(StrategyTest, RunsAFunctionOnEachReplicaAndReducesWhatItReturns) {
  run_job(3, 5, [](const Options& options) {
    const DistributedStrategy strategy(options);
    EXPECT_EQ(strategy.num_replicas_in_sync(), 5);
    const auto squares = strategy.run([](const ReplicaContext& replica) {
      EXPECT_EQ(replica.num_replicas_in_sync, 5);
      return static_cast<std::int64_t>(replica.replica * replica.replica);
    });
    ASSERT_EQ(static_cast<int>(squares.size()), strategy.num_local_replicas());
    EXPECT_EQ(squares.front(), strategy.first_replica() * strategy.first_replica());
    EXPECT_EQ(strategy.reduce(ReduceOp::Sum, squares), 0 + 1 + 4 + 9 + 16);
    EXPECT_EQ(strategy.reduce(ReduceOp::Max, squares), 16);

    const auto rows = strategy.run([](const ReplicaContext& replica) {
      return torch::full({2, 3}, 1.0 + replica.replica).t();  // not contiguous
    });
    expect_same_bits(strategy.reduce(ReduceOp::Mean, rows), torch::full({3, 2}, 3.0));
    strategy.run([](const ReplicaContext&) {});  // nothing comes back
  });
}

TEST(StrategyTest, RunsReplicasOfDifferentDevicesOnDifferentThreads) {
  run_job(1, 4, [](const Options& options) {  // on two devices
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::vector<int> replicas;
    DistributedStrategy(options).run([&](const ReplicaContext& replica) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      replicas.push_back(replica.replica);
    });
    EXPECT_EQ(threads.size(), 2U);
    EXPECT_THAT(replicas, ::testing::UnorderedElementsAre(0, 1, 2, 3));
  });
}

TEST(StrategyTest, DrawsForTheReplicaAndTheCallWhateverCarriesIt) {
  const auto draws = [](int instances) {
    std::mutex mutex;
    std::map<std::pair<int, int>, float> drawn;
    run_job(instances, 4, [&](Options options) {
      const DistributedStrategy strategy(options.seed(5));
      for (int call = 0; call < 2; ++call) {
        strategy.run([&](const ReplicaContext& replica) {
          const auto value = torch::rand({1}).item<float>();
          const std::lock_guard lock(mutex);
          drawn[{call, replica.replica}] = value;
        });
      }
    });
    return drawn;
  };
  const auto one = draws(1);
  std::set<float> different;
  for (const auto& [place, value] : one) different.insert(value);
  EXPECT_EQ(different.size(), 8U);
  EXPECT_EQ(draws(2), one);
}

TEST(StrategyTest, VariablesBeginWithTheValuesOfInstance0) {
  run_job(2, 4, [](const Options& options) {
    const int instance = options.world().instance();
    const DistributedStrategy strategy(options);
    const auto scope = strategy.scope();
    const auto variable = scope.variable(torch::full({3}, 10.0 + instance));
    const auto net = scope.module([instance] {
      auto made = std::make_shared<torch::nn::BatchNorm1dImpl>(2);
      const torch::NoGradGuard no_grad;
      made->weight.fill_(1.0 + instance);
      made->running_mean.fill_(5.0 + instance);
      made->num_batches_tracked.fill_(7 + instance);
      return made;
    });
    strategy.run([&](const ReplicaContext& replica) {
      expect_same_bits(variable[replica].detach(), torch::full({3}, 10.0));
      expect_same_bits(net[replica].weight.detach(), torch::ones({2}));
      expect_same_bits(net[replica].running_mean, torch::full({2}, 5.0));
      EXPECT_EQ(net[replica].num_batches_tracked.item<int>(), 7);
    });
  });
}

/// By module: all first weights that instances draw for two of one shape.
std::map<int, std::set<std::vector<float>>> first_weights(int instances) {
  std::mutex mutex;
  std::map<int, std::set<std::vector<float>>> drawn;
  run_job(instances, 4, [&](Options options) {
    const DistributedStrategy strategy(options.seed(5));
    for (int module = 0; module < 2; ++module) {
      strategy.scope().module([&] {
        auto made = torch::nn::Linear(3, 2);
        const std::lock_guard lock(mutex);
        drawn[module].insert(testing::values_of(made->weight));
        return made;
      });
    }
  });
  return drawn;
}

TEST(StrategyTest, ModulesOfOneShapeDrawOtherWeightsTheSameOnEveryInstance) {
  const auto drawn = first_weights(1);
  const auto alone = nn::make_seeded(5, [] { return torch::nn::Linear(3, 2); });
  EXPECT_THAT(drawn.at(0), ElementsAre(testing::values_of(alone->weight)));
  EXPECT_EQ(drawn.at(1).size(), 1U);
  EXPECT_NE(drawn.at(0), drawn.at(1));
  EXPECT_EQ(first_weights(2), drawn);
  EXPECT_EQ(first_weights(3), drawn);
}

/// Two epochs of a small net with batch norm, four samples a replica; returns its digest and the
/// losses.
struct Trained {
  std::vector<float> weights;
  std::vector<double> losses;
  bool operator==(const Trained&) const = default;
};

torch::nn::Sequential normed_net() {
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8),
                               torch::nn::Tanh(), torch::nn::Dropout(0.2), torch::nn::Linear(8, 3));
}

Trained train_with(const Strategy& strategy, int steps) {
  const auto data = testing::regression(48, 6, 3);
  const auto scope = strategy.scope();
  const auto net = scope.module(normed_net);
  auto optimizer = scope.optimizer<torch::optim::Adam>(torch::optim::AdamOptions(0.01), net);
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    const auto losses = strategy.run([&](const ReplicaContext& replica) {
      const auto first = (step * replica.num_replicas_in_sync + replica.replica) * 4 % 48;
      const auto output = net[replica].forward(data.x.narrow(0, first, 4));
      const auto loss = torch::mse_loss(output, data.y.narrow(0, first, 4));
      loss.backward();
      return loss.item<double>();
    });
    optimizer.step();
    trained.losses.push_back(strategy.reduce(ReduceOp::Mean, losses));
  }
  for (const auto& tensor : net.module()->parameters()) {
    for (const auto value : testing::values_of(tensor)) trained.weights.push_back(value);
  }
  for (const auto& tensor : net.module()->buffers()) {
    const auto values = testing::values_of(tensor.to(at::kFloat));
    trained.weights.insert(trained.weights.end(), values.begin(), values.end());
  }
  return trained;
}

TEST(StrategyTest, TrainsToTheSameBitsWhateverNumberOfInstancesCarriesTheReplicas) {
  Trained expected;
  run_job(1, 3,
          [&](Options options) { expected = train_with(DistributedStrategy(options.seed(3)), 6); });
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const int instances : {2, 3}) {
    std::mutex mutex;
    std::vector<Trained> found;
    run_job(instances, 3, [&](Options options) {
      auto trained = train_with(DistributedStrategy(options.seed(3)), 6);
      const std::lock_guard lock(mutex);
      found.push_back(std::move(trained));
    });
    EXPECT_THAT(found, Each(expected)) << instances;
  }
  EXPECT_EQ(train_with(LocalStrategy(alone(3).seed(3)), 6), expected);
}

/// What one step does to a variable that begins with zeros, where replica r's gradient is r + 1.
at::Tensor after_a_step(const Options& options) {
  const DistributedStrategy strategy(options);
  const auto scope = strategy.scope();
  const auto used = scope.variable(torch::zeros({2}));
  const auto unused = scope.variable(torch::ones({1}));
  auto optimizer = scope.optimizer<torch::optim::SGD>(
      torch::optim::SGDOptions(1.0).weight_decay(0.5), used, unused);
  strategy.run([&](const ReplicaContext& replica) {
    (used[replica].sum() * (1.0 + replica.replica)).backward();
  });
  optimizer.step();
  optimizer.step();  // there is no gradient left, so nothing happens
  expect_same_bits(unused.value(), torch::ones({1}));
  return used.value();
}

TEST(StrategyTest, OptimizersTakeTheMeanOrTheSumOverAllReplicas) {
  run_job(2, 4, [](Options options) {
    expect_same_bits(after_a_step(options), torch::full({2}, -2.5));
    expect_same_bits(after_a_step(options.reduction(Reduction::Sum)), torch::full({2}, -10.0));
  });
}

TEST(StrategyTest, OneOptimizerTrainsTwoModules) {
  run_job(2, 4, [](const Options& options) {
    const DistributedStrategy strategy(options);
    const auto scope = strategy.scope();
    const auto make = [] { return torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)); };
    const auto first = scope.module(make);
    const auto second = scope.module(make);
    auto optimizer =
        scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.5), first, second);
    const auto before = first.module()->weight.item<float>();
    const auto other = second.module()->weight.item<float>();
    strategy.run([&](const ReplicaContext& replica) {
      const auto x = torch::full({1, 1}, 1.0 + replica.replica);
      (first[replica].forward(x) + 2 * second[replica].forward(x)).sum().backward();
    });
    optimizer.step();  // gradients are 1, 2, 3, 4, and twice as much
    strategy.run([&](const ReplicaContext& replica) {
      EXPECT_EQ(first[replica].weight.item<float>(), before - 0.5F * 2.5F);
      EXPECT_EQ(second[replica].weight.item<float>(), other - 0.5F * 5.0F);
    });
  });
}

TEST(StrategyTest, ForgetsGradientsThatNoStepHasTaken) {
  run_job(2, 4, [](const Options& options) {
    const DistributedStrategy strategy(options);
    const auto scope = strategy.scope();
    const auto variable = scope.variable(torch::zeros({2}));
    auto optimizer = scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(1.0), variable);
    const auto backward = [&](double factor) {
      strategy.run(
          [&](const ReplicaContext& replica) { (variable[replica].sum() * factor).backward(); });
    };
    backward(100);
    optimizer.zero_grad();
    strategy.run(
        [&](const ReplicaContext& replica) { EXPECT_FALSE(variable[replica].grad().defined()); });
    backward(1);
    optimizer.step();
    expect_same_bits(variable.value(), torch::full({2}, -1.0));
  });
}

TEST(StrategyTest, BuffersBecomeTheMeanAndThoseThatNobodyChangedStay) {
  run_job(2, 3, [](const Options& options) {
    const DistributedStrategy strategy(options);
    const auto scope = strategy.scope();
    const auto net = scope.module([] { return torch::nn::BatchNorm1d(1); });
    auto optimizer = scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.0), net);
    const auto odd = torch::full({1}, 0.1F);  // three times it, divided by three, is another number
    strategy.run([&](const ReplicaContext& replica) { net[replica].running_var.copy_(odd); });
    optimizer.step();
    const auto once = net.module()->running_var.clone();
    strategy.run([&](const ReplicaContext& replica) {
      net[replica].running_mean.fill_(replica.replica + 1.0);
    });
    optimizer.step();
    strategy.run([&](const ReplicaContext& replica) {
      expect_same_bits(net[replica].running_mean, torch::full({1}, 2.0));
      expect_same_bits(net[replica].running_var, once);
    });
  });
}

/// x goes through the same matrix twice, and through one that stays as it is.
struct TiedNetImpl : torch::nn::Module {
  TiedNetImpl() {
    first = register_module("first", torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)));
    second =
        register_module("second", torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)));
    second->weight.set_data(first->weight);
    fixed = register_module("fixed", torch::nn::Linear(2, 2));
    for (auto& parameter : fixed->parameters()) parameter.set_requires_grad(false);
  }
  at::Tensor forward(const at::Tensor& x) { return fixed(second(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr}, fixed{nullptr};
};

TEST(StrategyTest, WhatIsTiedStaysTiedAndWhatIsFrozenStays) {
  run_job(2, 4, [](const Options& options) {
    const DistributedStrategy strategy(options);
    const auto scope = strategy.scope();
    const auto net = scope.module([] { return std::make_shared<TiedNetImpl>(); });
    auto optimizer = scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1), net);
    EXPECT_EQ(optimizer.optimizer().param_groups().front().params().size(), 1U);
    const auto before = net.module()->first->weight.detach().clone();
    const auto fixed = net.module()->fixed->weight.detach().clone();
    strategy.run([&](const ReplicaContext& replica) {
      net[replica].forward(torch::ones({3, 2})).sum().backward();
    });
    optimizer.step();
    strategy.run([&](const ReplicaContext& replica) {
      auto& here = net[replica];
      EXPECT_FALSE(here.first->weight.equal(before));
      EXPECT_EQ(here.first->weight.data_ptr(), here.second->weight.data_ptr());
      expect_same_bits(here.fixed->weight, fixed);
      EXPECT_FALSE(here.first->weight.grad().defined());
    });
  });
}

/// Keeps the mean of what it sees and how often it has seen something.
struct WatchfulNetImpl : torch::nn::Module {
  WatchfulNetImpl() {
    line = register_module("line", torch::nn::Linear(2, 2));
    mean = register_buffer("mean", torch::zeros({2}));
    seen = register_buffer("seen", torch::zeros({}, torch::kLong));
  }
  torch::nn::Linear line{nullptr};
  at::Tensor mean, seen;
};

/// What a step says after each replica has done something with its net.
std::string error_of_step(const Strategy& strategy,
                          const std::function<void(WatchfulNetImpl&, int replica)>& change) {
  const auto scope = strategy.scope();
  const auto net = scope.module([] { return std::make_shared<WatchfulNetImpl>(); });
  auto optimizer = scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1), net);
  strategy.run([&](const ReplicaContext& replica) {
    const torch::NoGradGuard no_grad;
    change(net[replica], replica.replica);
  });
  try {
    optimizer.step();
    return "none";
  } catch (const Error& error) {
    return std::string(error.what()) + "\n" + error.hint();
  }
}

TEST(StrategyTest, RefusesBuffersOfWholeNumbersThatDiffer) {
  run_job(2, 3, [](const Options& options) {
    const DistributedStrategy strategy(options);
    EXPECT_EQ(error_of_step(strategy, [](auto& net, int) { net.seen += 2; }), "none");
    // All but the last replica agree, and that is the other instance's.
    EXPECT_EQ(error_of_step(strategy, [](auto& net, int replica) { net.seen += replica / 2; }),
              "model: replicas disagree about buffers of whole numbers, which cannot be averaged: "
              "one of 'seen' and 0 others\n"
              "let them depend on the step alone, or make them floating-point buffers");
  });
}

TEST(StrategyTest, RefusesTensorsThatAModuleReplaces) {
  run_job(2, 3, [](const Options& options) {
    EXPECT_EQ(error_of_step(DistributedStrategy(options),
                            [](auto& net, int replica) {
                              if (replica == 2) net.replace_module("line", torch::nn::Linear(2, 2));
                            }),
              "model: 'line.bias' is another tensor after a step than before\n"
              "let the module write its buffers in place, as buffer.copy_(...) does");
  });
  run_job(2, 3, [](const Options& options) {
    EXPECT_EQ(error_of_step(DistributedStrategy(options),
                            [](auto& net, int replica) {
                              if (replica == 2) net.line->weight.set_data(torch::ones({2, 2}));
                            }),
              "model: 'line.weight' was given other memory than the replicas of this instance "
              "share\nwrite parameters in place, as parameter.copy_(...) does");
  });
}

TEST(StrategyTest, RefusesASparseGradient) {
  const LocalStrategy strategy(alone(2));
  const auto scope = strategy.scope();
  const auto net = scope.module(
      [] { return torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)); });
  auto optimizer = scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1), net);
  strategy.run([&](const ReplicaContext& replica) {
    net[replica].forward(torch::tensor({1, 2})).sum().backward();
  });
  expect_error([&] { optimizer.step(); }, ErrorKind::Options,
               "the gradient of 'weight' is sparse, and only dense ones are combined");
}

TEST(StrategyTest, AValueKeptPerReplicaIsReducedWhenItIsRead) {
  run_job(2, 3, [](const Options& options) {
    const DistributedStrategy strategy(options);
    auto seen = strategy.scope().on_read(torch::zeros({}, torch::kLong), ReduceOp::Sum);
    const auto best = strategy.scope().on_read(torch::full({2}, -1.0), ReduceOp::Max);
    for (int step = 0; step < 2; ++step) {
      strategy.run([&](const ReplicaContext& replica) {
        seen[replica] += 10 + replica.replica;
        best[replica].fill_(replica.replica);
      });
    }
    EXPECT_EQ(seen.read().item<std::int64_t>(), 2 * (10 + 11 + 12));
    EXPECT_EQ(seen.read().item<std::int64_t>(), 66) << "reading changes nothing";
    expect_same_bits(best.read(), torch::full({2}, 2.0));
    seen.reset();
    EXPECT_EQ(seen.read().item<std::int64_t>(), 0);
  });
}

TEST(StrategyTest, WhatOneReplicaThrowsEndsTheJobOnEveryInstance) {
  std::mutex mutex;
  std::vector<std::string> errors;
  EXPECT_THROW(run_job(2, 4,
                       [&](const Options& options) {
                         const DistributedStrategy strategy(options);
                         try {
                           const auto values = strategy.run([](const ReplicaContext& replica) {
                             if (replica.replica == 3) torch::ones({2}) + torch::ones({3});
                             return 1.0;
                           });
                           strategy.reduce(ReduceOp::Sum, values);
                         } catch (const Error& error) {
                           const std::lock_guard lock(mutex);
                           errors.emplace_back(error.what());
                           throw;
                         }
                       }),
               Error);
  ASSERT_EQ(errors.size(), 2U);
  for (const auto& error : errors) {
    EXPECT_THAT(error, HasSubstr("Strategy::run: replica 3: libtorch refuses"));
  }
}

/// What instances 0 and 1 hear where `action` fails on instance 1 alone. That one stays until the
/// other has heard: else its end would be news enough.
std::vector<std::string> errors_of(const std::function<void(const Strategy&, bool fails)>& action) {
  std::vector<std::string> errors(2, "none");
  std::promise<void> heard;
  run_job(2, 4, [&](const Options& options) {
    const bool fails = options.world().instance() == 1;
    const DistributedStrategy strategy(options);
    try {
      action(strategy, fails);
    } catch (const std::exception& error) {
      errors[fails ? 1 : 0] = error.what();
    }
    if (!fails) return heard.set_value();
    EXPECT_EQ(heard.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  });
  return errors;
}

TEST(StrategyTest, WhatOneInstanceIsRefusedEndsTheJobOnEveryInstance) {
  const auto learn = torch::optim::SGDOptions(0.1);
  EXPECT_THAT(errors_of([](const Strategy& strategy, bool fails) {
                strategy.reduce(ReduceOp::Sum, PerReplica<double>(fails ? 1 : 2));
              }),
              Each(HasSubstr("expected a value for each of the 2 replicas of this instance")));
  EXPECT_THAT(errors_of([](const Strategy& strategy, bool fails) {
                const std::vector<at::Tensor> values(2, torch::zeros({2}));
                strategy.reduce(ReduceOp::Sum, fails ? PerReplica<at::Tensor>(2) : values);
              }),
              Each(HasSubstr("Strategy::reduce: expected a dense tensor of numbers")));
  EXPECT_THAT(errors_of([](const Strategy& strategy, bool fails) {
                strategy.scope().variable(torch::zeros({2}, fails ? at::kBool : at::kFloat));
              }),
              Each(HasSubstr("Scope::variable: expected a dense tensor of numbers")));
  EXPECT_THAT(errors_of([](const Strategy& strategy, bool fails) {
                const auto type = fails ? at::kBool : at::kFloat;
                strategy.scope().on_read(torch::zeros({2}, type), ReduceOp::Sum);
              }),
              Each(HasSubstr("Scope::on_read: expected a dense tensor of numbers")));
  EXPECT_THAT(errors_of([&](const Strategy& strategy, bool fails) {
                const auto scope = strategy.scope();
                const auto one = scope.variable(torch::zeros({2}));
                const auto two = scope.variable(torch::zeros({2}));
                scope.optimizer<torch::optim::SGD>(learn, one, fails ? one : two).step();
              }),
              Each(HasSubstr("Scope::optimizer: expected every module and variable once")));
}

TEST(StrategyTest, AFunctionThatFailsToMakeAModuleEndsTheJobOnEveryInstance) {
  const auto errors_of_making = [](const std::function<void()>& fail) {
    return errors_of([&](const Strategy& strategy, bool fails) {
      strategy.scope().module([&] {
        if (fails) fail();
        return fails ? torch::nn::Linear(nullptr) : torch::nn::Linear(1, 1);
      });
    });
  };
  EXPECT_THAT(errors_of_making([] {}), Each("model: expected a module, found a null pointer"));
  EXPECT_THAT(errors_of_making([] { torch::ones({2}) + torch::ones({3}); }),
              Each(HasSubstr("Scope::module: libtorch refuses: ")));
  EXPECT_THAT(errors_of_making([] { throw std::runtime_error("no such file"); }),
              ElementsAre("Scope::module: no such file", "no such file"));
}

TEST(StrategyTest, WhatIsThrownThatIsNoErrorOfOursEndsTheJobOnEveryInstance) {
  EXPECT_THAT(errors_of([](const Strategy& strategy, bool) {
                const auto values = strategy.run([](const ReplicaContext& replica) {
                  if (replica.replica == 3) throw std::out_of_range("no such word");
                  return 1.0;
                });
                strategy.reduce(ReduceOp::Sum, values);
              }),
              ElementsAre("Strategy::run: no such word", "no such word"));
}

TEST(StrategyTest, RefusesToRoundAMean) {
  const auto refuses = [](const std::function<void(const Strategy&)>& action,
                          const std::string& text) {
    const LocalStrategy strategy(alone(2));
    expect_error([&] { action(strategy); }, ErrorKind::Options, text);
  };
  refuses(
      [](const auto& s) {
        s.reduce(ReduceOp::Mean, PerReplica<std::int64_t>{1, 2});
      },
      "Strategy::reduce: expected floating-point numbers for a mean, found i64, which would "
      "round it\nreduce with Sum, or make it a double");
  refuses([](const auto& s) { s.reduce(ReduceOp::Mean, PerReplica<int>{1, 2}); }, "found i32");
  refuses(
      [](const auto& s) {
        s.reduce(ReduceOp::Mean, std::vector<at::Tensor>(2, torch::ones({2}, torch::kByte)));
      },
      "Strategy::reduce: expected floating-point numbers for a mean, found u8");
  refuses([](const auto& s) { s.scope().on_read(torch::zeros({}, torch::kLong), ReduceOp::Mean); },
          "Scope::on_read: expected floating-point numbers for a mean, found i64");
  refuses(
      [](const auto& s) {
        const auto kept = s.scope().on_read(torch::zeros({}), ReduceOp::Mean);
        s.run([&](const ReplicaContext& replica) { kept[replica] = torch::tensor(7); });
        kept.read();
      },
      "OnRead::read: expected floating-point numbers for a mean, found i64");
  EXPECT_EQ(LocalStrategy(alone(2)).reduce(ReduceOp::Mean, PerReplica<double>{1, 2}), 1.5);
}

TEST(StrategyTest, RefusesAnOptimizerThatChangesOneThingTwice) {
  const LocalStrategy strategy(alone(2));
  const auto scope = strategy.scope();
  const auto net = scope.module([] { return torch::nn::Linear(2, 2); });
  const auto variable = scope.variable(torch::zeros({2}));
  const auto copy = net;
  expect_error(
      [&] {
        scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1), net, variable, copy);
      },
      ErrorKind::Options,
      "Scope::optimizer: expected every module and variable once, found number 1 again as number "
      "3\nname each once; a copy of a handle refers to the same");
}

TEST(StrategyTest, RefusesWhatCannotBeReducedOrLearned) {
  const LocalStrategy strategy(alone(2));
  const auto scope = strategy.scope();
  expect_error([&] { strategy.reduce(ReduceOp::Sum, PerReplica<double>{1.0}); }, ErrorKind::Options,
               "expected a value for each of the 2 replicas of this instance, found 1");
  expect_error([&] { strategy.reduce(ReduceOp::Sum, PerReplica<at::Tensor>(2)); },
               ErrorKind::Options,
               "Strategy::reduce: expected a dense tensor of numbers in the "
               "host's memory, found none");
  expect_error([&] { scope.on_read(torch::zeros({2}, torch::kBool), ReduceOp::Sum); },
               ErrorKind::Options,
               "Scope::on_read: expected a dense tensor of numbers in the "
               "host's memory, found Bool [2] on cpu");
  expect_error([&] { scope.variable(torch::zeros({2}, torch::kDouble)); }, ErrorKind::Options,
               "expected parameters of f32, found 'variable' of Double");
  expect_error([&] { scope.module([] { return std::shared_ptr<SmallNetImpl>(); }); },
               ErrorKind::Options, "expected a module, found a null pointer");
  const LocalStrategy other(alone(2));
  const auto theirs = other.scope().variable(torch::zeros({2}));
  expect_error([&] { scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1), theirs); },
               ErrorKind::Options, "expected variables of this strategy, found another's");
  expect_error([] { LocalStrategy(alone().device(DeviceKind::Cuda)).num_replicas_in_sync(); },
               ErrorKind::Unavailable,
               "Strategy: expected the device cpu, found cuda\ntrain on GPUs with TrainingModel");
}

TEST(StrategyTest, RefusesTensorsOfDifferentShapes) {
  const LocalStrategy strategy(alone(2));
  expect_error(
      [&] {
        strategy.reduce(ReduceOp::Sum, strategy.run([](const ReplicaContext& replica) {
          return torch::zeros({2 + replica.replica});
        }));
      },
      ErrorKind::Options,
      "expected Float [2] of every replica, as of replica 0, found Float [3] of replica 1");
}

TEST(StrategyTest, ItsOptionsTrainAModelToTheSameBits) {
  const auto digest_of = [](const Strategy& strategy) {
    DataLoader loader(strategy.options(), testing::regression(48, 6, 3).set(),
                      {.batch_size = 4, .shuffle = true});
    TrainingModel model(small_net(), strategy.options(), SGD({.lr = 0.05}),
                        testing::regression_task());
    for (auto& iteration : loader) model.step(iteration);
    return model.digest();
  };
  std::string expected;
  run_job(1, 3,
          [&](const Options& options) { expected = digest_of(DistributedStrategy(options)); });
  run_job(3, 3, [&](const Options& options) {
    EXPECT_EQ(digest_of(DistributedStrategy(options)), expected);
  });
  EXPECT_EQ(digest_of(LocalStrategy(alone()).devices(3)), expected);
}

}  // namespace
}  // namespace lockstep
