#include "lockstep/nn/random/random_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ThreadLocalState.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>
#include <thread>

#include "lockstep/nn/random/routed_operations.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

constexpr DrawKey kDrawKey{.seed = 7, .step = 3, .replica = 1, .micro_batch = 2};

at::Tensor drawn(const DrawKey& key, std::uint32_t block = 0) {
  const RandomScope scope(key, block);
  return torch::rand({8});
}

at::Tensor state_of_process_generator() {
  return at::detail::getDefaultCPUGenerator().get_state();
}

struct RandomOperation {
  const char* name;
  std::function<at::Tensor()> run;
  friend std::ostream& operator<<(std::ostream& stream, const RandomOperation& operation) {
    return stream << operation.name;
  }
};

class RandomOperationTest : public ::testing::TestWithParam<RandomOperation> {};

TEST_P(RandomOperationTest, DrawsForTheScopeAndLeavesTheProcessAlone) {
  const auto before = state_of_process_generator();
  const auto run = [](const DrawKey& key) {
    const RandomScope scope(key);
    return GetParam().run();
  };
  const auto first = run(kDrawKey);
  torch::rand({1});  // what others draw does not matter
  testing::expect_same_bits(run(kDrawKey), first);
  auto other = kDrawKey;
  other.replica = 5;
  EXPECT_FALSE(at::equal(run(other), first));
  torch::manual_seed(0);
  testing::expect_same_bits(run(kDrawKey), first);
  auto process = at::detail::getDefaultCPUGenerator();
  process.set_state(before);
  run(kDrawKey);
  EXPECT_TRUE(at::equal(state_of_process_generator(), before));
}

at::Tensor ones() {
  return torch::ones({4, 16, 8});
}

INSTANTIATE_TEST_SUITE_P(
    All, RandomOperationTest,
    ::testing::Values(
        RandomOperation{"rand", [] { return torch::rand({64}); }},
        RandomOperation{"randn", [] { return torch::randn({64}); }},
        RandomOperation{"randint", [] { return torch::randint(1000, {64}); }},
        RandomOperation{"randperm", [] { return torch::randperm(64); }},
        RandomOperation{"rand_like", [] { return torch::rand_like(ones()); }},
        RandomOperation{"uniform_", [] { return ones().uniform_(); }},
        RandomOperation{"normal_", [] { return ones().normal_(); }},
        RandomOperation{"bernoulli", [] { return (ones() / 2).bernoulli(); }},
        RandomOperation{"exponential_", [] { return ones().exponential_(); }},
        RandomOperation{"multinomial", [] { return torch::multinomial(torch::ones({99}), 20); }},
        RandomOperation{"poisson", [] { return torch::poisson(ones() * 9); }},
        RandomOperation{"dropout", [] { return torch::dropout(ones(), 0.5, true); }},
        RandomOperation{"dropout_ with gradient",
                        [] { return torch::dropout(ones().requires_grad_(), 0.5, true); }},
        RandomOperation{"native_dropout",
                        [] { return std::get<0>(torch::native_dropout(ones(), 0.5, true)); }},
        RandomOperation{"feature_dropout",
                        [] { return torch::feature_dropout(ones(), 0.5, true); }},
        RandomOperation{"alpha_dropout", [] { return torch::alpha_dropout(ones(), 0.5, true); }},
        RandomOperation{"rrelu", [] { return torch::rrelu(-ones(), 0.1, 0.9, true); }},
        RandomOperation{"torch::nn::Linear",
                        [] { return torch::nn::Linear(8, 8)->weight.detach(); }},
        RandomOperation{"an LSTM's dropout", [] {
                          torch::nn::LSTM lstm(
                              torch::nn::LSTMOptions(8, 8).num_layers(2).dropout(0.5));
                          return std::get<0>(lstm(torch::ones({4, 2, 8}))).detach();
                        }}));

TEST(RandomScopeTest, DrawsAnewForEachPartOfTheKey) {
  const auto first = drawn(kDrawKey);
  for (const auto& other : {DrawKey{8, 3, 1, 2}, DrawKey{7, 4, 1, 2}, DrawKey{7, 3, 2, 2},
                            DrawKey{7, 3, 1, 3}, DrawKey{7, 3, 2, 1}}) {
    EXPECT_FALSE(at::equal(drawn(other), first));
  }
  EXPECT_FALSE(at::equal(drawn(kDrawKey, 1), first));
}

TEST(RandomScopeTest, CountsCallsWithinABlock) {
  RandomScope scope(kDrawKey);
  const auto first = torch::rand({8});
  EXPECT_FALSE(at::equal(torch::rand({8}), first));
  scope.enter_block(1);
  EXPECT_FALSE(at::equal(torch::rand({8}), first));
  scope.enter_block(0);
  testing::expect_same_bits(torch::rand({8}), first, "a block that is computed again");
}

TEST(RandomScopeTest, LeavesAGeneratorOfTheCallersOwnAlone) {
  const auto seeded = [] { return at::make_generator<at::CPUGeneratorImpl>(5); };
  const auto outside = torch::rand({8}, seeded());
  const RandomScope scope(kDrawKey);
  testing::expect_same_bits(torch::rand({8}, seeded()), outside);
}

TEST(RandomScopeTest, EndsWithItsScopeAndGoesBackToTheOuterOne) {
  EXPECT_EQ(RandomScope::current(), nullptr);
  {
    const RandomScope outer(kDrawKey);
    { const RandomScope inner(making_key(1)); }
    EXPECT_EQ(RandomScope::current(), &outer);
    testing::expect_same_bits(torch::rand({8}), drawn(kDrawKey));
  }
  EXPECT_EQ(RandomScope::current(), nullptr);
  const auto before = state_of_process_generator();
  torch::rand({8});
  EXPECT_FALSE(at::equal(state_of_process_generator(), before)) << "libtorch is not itself again";
}

TEST(RandomScopeTest, BelongsToItsThread) {
  const RandomScope scope(kDrawKey);
  std::thread([] { EXPECT_EQ(RandomScope::current(), nullptr); }).join();
}

TEST(RandomScopeTest, GivesReplicasSideBySideWhatEachDrawsAlone) {
  std::vector<at::Tensor> alone;
  for (std::uint32_t replica = 0; replica < 4; ++replica) {
    alone.push_back(drawn({.seed = 1, .replica = replica}));
  }
  std::vector<std::thread> threads;
  for (std::uint32_t replica = 0; replica < 4; ++replica) {
    threads.emplace_back([&, replica] {
      for (int i = 0; i < 200; ++i) {
        testing::expect_same_bits(drawn({.seed = 1, .replica = replica}), alone[replica]);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(RandomScopeTest, MakesModulesOfASeed) {
  const auto make = [] { return torch::nn::Conv2d(3, 8, 3); };
  torch::manual_seed(1);
  const auto first = make_seeded(5, make);
  torch::manual_seed(2);
  testing::expect_same_bits(make_seeded(5, make)->weight, first->weight);
  EXPECT_FALSE(at::equal(make_seeded(6, make)->weight, first->weight));
}

TEST(RandomScopeTest, DrawsFromLibtorchOutsideOfAnyScope) {
  torch::manual_seed(1);
  const auto first = next_random_stream().key();
  EXPECT_NE(next_random_stream().key(), first);
  torch::manual_seed(1);
  EXPECT_EQ(next_random_stream().key(), first);
}

// Random, without a generator, and not made of operations that have one.
at::Tensor noise_for(const at::Tensor& input) {
  return input.clone();
}
TORCH_LIBRARY(lockstep_test, library) {
  library.def("noise_for(Tensor input) -> Tensor", {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(lockstep_test, CPU, library) {
  library.impl("noise_for", noise_for);
}

TEST(RandomScopeTest, RefusesByNameWhatTakesNoGenerator) {
  const auto operation = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("lockstep_test::noise_for", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  operation.call(ones());
  const RandomScope scope(kDrawKey);
  testing::expect_error([&] { operation.call(ones()); }, ErrorKind::Unavailable,
                        "random operation lockstep_test::noise_for: it takes no generator");
}

TEST(RandomScopeTest, RemembersARefusalForWhoeverCatchesSomethingElse) {
  const RandomScope scope(kDrawKey);
  take_refusal();  // of another test
  try {
    torch::rand({2}, torch::device(torch::kMeta));
  } catch (const std::exception&) {
  }
  const auto refusal = take_refusal();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind(), ErrorKind::Unavailable);
  EXPECT_FALSE(take_refusal());
}

TEST(RandomScopeTest, RefusesThreadsThatKnowNoReplica) {
  const RandomScope scope(kDrawKey);
  const at::ThreadLocalState state;
  std::thread([&state] {
    // As libtorch does for threads that it starts.
    const at::ThreadLocalStateGuard guard(state);
    testing::expect_error([] { torch::rand({2}); }, ErrorKind::Unavailable,
                          "it runs in a thread without a replica");
  }).join();
}

TEST(RandomScopeTest, RefusesDevicesWithoutAGeneratorOfOurs) {
  const RandomScope scope(kDrawKey);
  testing::expect_error([] { torch::rand({2}, torch::device(torch::kMeta)); },
                        ErrorKind::Unavailable, "on meta it takes no generator");
}

}  // namespace
}  // namespace lockstep::nn
