#include "lockstep/nn/model.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <string_view>
#include <thread>

#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/module_tensors.h"
#include "lockstep/nn/zoo/resnet.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;

/// Two layers that share one weight.
struct SharedImpl : torch::nn::Cloneable<SharedImpl> {
  SharedImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(6, 6));
    second = register_module("second", torch::nn::Linear(6, 6));
  }
  /// As most people tie: the second's parameter takes the memory of the first's.
  void tie() { second->weight.set_data(first->weight.data()); }
  at::Tensor forward(const at::Tensor& input) { return second(torch::tanh(first(input))); }

  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};

/// Registers one tensor twice: truly one parameter.
struct OneWeightImpl : torch::nn::Module {
  OneWeightImpl() {
    weight = register_parameter("a", torch::eye(4));
    register_parameter("b", weight);
    register_parameter("c", torch::ones({4}));
  }
  at::Tensor forward(const at::Tensor& input) { return input.matmul(weight); }
  at::Tensor weight;
};

std::shared_ptr<SharedImpl> tied_module() {
  auto module = std::make_shared<SharedImpl>();
  module->tie();
  return module;
}

TEST(SlotsTest, CountATiedTensorOnce) {
  const auto model = model_of(std::make_shared<OneWeightImpl>());
  const auto slots = slots_of(model->tensors());
  ASSERT_EQ(slots.size(), 2U);
  EXPECT_THAT(slots[0].names, ElementsAre("a", "b"));
  EXPECT_EQ(slots[0].tensors.size(), 1U);
  EXPECT_EQ(slots[1].name(), "c");
  EXPECT_EQ(count_parameters(*model), 20);
}

TEST(SlotsTest, KeepApartWhatOnlyLooksAlike) {
  const auto storage = torch::zeros({8});
  const std::vector<NamedTensor> tensors{{"whole", storage, TensorRole::Parameter},
                                         {"front", storage.slice(0, 0, 4), TensorRole::Parameter},
                                         {"back", storage.slice(0, 4, 8), TensorRole::Parameter},
                                         {"empty", torch::empty({0}), TensorRole::Buffer},
                                         {"empty too", torch::empty({0}), TensorRole::Buffer}};
  EXPECT_EQ(slots_of(tensors).size(), 5U);
}

TEST(ModelTest, ClonesKeepTies) {
  const auto module = tied_module();
  const auto model = model_of(module);
  const auto clone = model->clone();
  const auto slots = slots_of(clone->tensors());
  ASSERT_EQ(slots.size(), 3U);
  EXPECT_THAT(slots[1].names, ElementsAre("first.weight", "second.weight"));
  ASSERT_EQ(slots[1].tensors.size(), 2U);
  {
    const torch::NoGradGuard no_grad;
    slots[1].tensors[0].fill_(0.25);
  }
  EXPECT_EQ(slots[1].tensors[1].sum().item<float>(), 9);
  EXPECT_NE(module->first->weight.sum().item<float>(), 9) << "the clone shares memory";
  const auto input = torch::randn({2, 6});
  testing::expect_same_bits(model->clone()->forward(input), model->forward(input));
}

TEST(ModelTest, ClonesKeepWhatIsFrozenAndWhatTrains) {
  const auto module = std::make_shared<SharedImpl>();
  module->first->weight.set_requires_grad(false);
  module->train();
  module->second->eval();
  const auto clone = std::dynamic_pointer_cast<SharedImpl>(clone_module(*module));
  EXPECT_FALSE(clone->first->weight.requires_grad());
  EXPECT_TRUE(clone->second->weight.requires_grad());
  EXPECT_TRUE(clone->first->is_training());
  EXPECT_FALSE(clone->second->is_training());
}

TEST(ModelTest, SaysWhatCannotBeCloned) {
  const auto model = model_of(std::make_shared<OneWeightImpl>());
  testing::expect_error([&] { model->clone(); }, ErrorKind::Options,
                        "derive it from torch::nn::Cloneable, or hand over a function");
}

TEST(ModelTest, SaysWhichTensorACloneLost) {
  struct ForgetfulImpl : torch::nn::Cloneable<ForgetfulImpl> {
    ForgetfulImpl() { reset(); }
    void reset() override { register_parameter("kept", torch::ones({2})); }
    at::Tensor forward(const at::Tensor& input) { return input; }
  };
  const auto module = std::make_shared<ForgetfulImpl>();
  module->register_buffer("added", torch::ones({3}));
  testing::expect_error([&] { model_of(module)->clone(); }, ErrorKind::Options,
                        "derive it from torch::nn::Cloneable, or hand over a function");
}

struct DerivedImpl : SharedImpl {};

TEST(ModelTest, SaysThatAClonesTypeIsAnother) {
  testing::expect_error([] { model_of(std::make_shared<DerivedImpl>())->clone(); },
                        ErrorKind::Options, "is of another type");
}

TEST(SlotsTest, AreLearnedWhereOneOfTheirNamesIs) {
  const auto weight = torch::ones({4});
  const auto slots =
      slots_of({{"anchor", weight, TensorRole::Buffer}, {"weight", weight, TensorRole::Parameter}});
  ASSERT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots[0].role, TensorRole::Parameter);
}

TEST(ModelTest, ShowsTheWholeGradientOfAnActivationThatSomebodyHolds) {
  const auto model = model_of(resnet20(10));
  const auto input = make_seeded(1, [] { return torch::randn({4, 3, 16, 16}); });
  const auto rest = [&](at::Tensor activation) {
    for (std::size_t block = 2; block < 11; ++block) {
      activation = model->run_block(block, std::move(activation));
    }
    return activation.square().sum();
  };
  const auto held = model->run_block(1, model->run_block(0, input));
  const auto seen = torch::autograd::grad({rest(held)}, {held})[0];
  const auto leaf = held.detach().requires_grad_();
  testing::expect_close(seen, torch::autograd::grad({rest(leaf)}, {leaf})[0], 1e-4);
}

TEST(ModelTest, TakesAnyModuleAsOneBlock) {
  const auto model = model_of(torch::nn::Linear(4, 3));
  EXPECT_THAT(model->block_names(), ElementsAre("model"));
  EXPECT_EQ(model->block_tensors(0).size(), 2U);
  EXPECT_THAT(model->forward(torch::ones({2, 4})).sizes().vec(), ElementsAre(2, 3));
}

TEST(ModelTest, DrawsByBlockAndCallSoThatBlocksCanBeComputedAgain) {
  const auto net = std::make_shared<Network>([](Network& described) {
    for (const auto* name : {"one", "two"}) {
      auto dropout = described.register_module(name, Dropout(0.5));
      described.add_block({name, {name}, [dropout](const at::Tensor& input) {
                             return dropout->forward(dropout->forward(input) + 1);
                           }});
    }
  });
  const auto model = model_of(net);
  const auto input = torch::ones({64});
  constexpr DrawKey kKey{.seed = 1, .step = 2};
  at::Tensor whole;
  {
    const RandomScope scope(kKey);
    whole = model->forward(input);
  }
  at::Tensor between;
  std::thread([&] {
    const RandomScope scope(kKey);
    between = model->run_block(0, input);
  }).join();
  const RandomScope scope(kKey);
  testing::expect_same_bits(model->run_block(1, between), whole);
  testing::expect_same_bits(model->run_block(1, between), whole, "again");
}

std::atomic<int> additions = 0;
std::unique_ptr<at::ObserverContext> count_additions(const at::RecordFunction& function) {
  if (std::string_view(function.name()) == "aten::add") ++additions;
  return nullptr;
}

TEST(ModelTest, AddsGradientsOfItsOwnActivationsInsideBatchNorm) {
  const auto model = model_of(resnet20(10));
  const auto loss = model->forward(torch::randn({4, 3, 16, 16})).sum();
  additions = 0;
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(&count_additions));
  loss.backward();
  at::removeCallback(handle);
  // Nine blocks join two gradients each. The first one's input comes from the stem, whose batch
  // norm has no residual, and is added by libtorch.
  EXPECT_EQ(additions, 1);
}

/// Gradients of a ResNet, one replica after another and side by side.
std::vector<at::Tensor> gradients(Model& model) {
  const auto input = make_seeded(1, [] { return torch::randn({8, 3, 32, 32}); });
  torch::cross_entropy_loss(model.forward(input), torch::arange(8)).backward();
  std::vector<at::Tensor> all;
  for (const auto& slot : slots_of(model.tensors())) {
    all.push_back(slot.role == TensorRole::Parameter ? slot.tensor().grad() : slot.tensor());
  }
  return all;
}

TEST(ModelTest, ReplicasSideBySideGiveTheBitsOfOneAlone) {
  const auto model = model_of(resnet20(10));
  const auto alone = gradients(*model->clone());
  std::vector<std::vector<at::Tensor>> found(4);
  std::vector<std::thread> threads;
  for (auto& each : found) {
    threads.emplace_back([&] { each = gradients(*model->clone()); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& each : found) {
    for (std::size_t i = 0; i < alone.size(); ++i) testing::expect_same_bits(each[i], alone[i]);
  }
}

}  // namespace
}  // namespace lockstep::nn
