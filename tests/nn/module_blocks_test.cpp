#include "lockstep/nn/module_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/zoo/quick_networks.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& named : tensors) names.push_back(named.name);
  return names;
}

/// Lists blocks, and has no forward.
struct ListedImpl : torch::nn::Cloneable<ListedImpl> {
  ListedImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(4, 4));
    dropout = register_module("dropout", Dropout(0.5));
    second = register_module("second", torch::nn::Linear(4, 2));
    scale = register_parameter("scale", torch::full({4}, 3.0));
    unused = register_buffer("second_look", torch::ones({1}));
  }
  std::vector<Block> blocks() {
    return {
        {"stem",
         {"first", "scale"},
         [this](const at::Tensor& x) { return dropout(first(x) * scale); }},
        {"head", {"dropout", "second"}, [this](const at::Tensor& x) { return second(dropout(x)); }},
    };
  }

  torch::nn::Linear first{nullptr};
  Dropout dropout{nullptr};
  torch::nn::Linear second{nullptr};
  at::Tensor scale;
  at::Tensor unused;
};

TEST(ModuleBlocksTest, OfASequentialAreItsChildren) {
  const torch::nn::Sequential layers(torch::nn::Linear(4, 3), torch::nn::Tanh(),
                                     torch::nn::Linear(3, 2));
  const auto model = model_of(layers);
  EXPECT_THAT(model->block_names(), ElementsAre("0", "1", "2"));
  EXPECT_THAT(names_of(model->block_tensors(0)), ElementsAre("0.weight", "0.bias"));
  EXPECT_THAT(names_of(model->block_tensors(1)), IsEmpty());
  const auto input = torch::randn({5, 4});
  testing::expect_same_bits(model->forward(input), layers.ptr()->forward(input));
  EXPECT_TRUE(model->block_tensors(2)[0].tensor.is_same(model->tensors()[2].tensor));
}

TEST(ModuleBlocksTest, OfASequentialKeepTheirNamesInClones) {
  const torch::nn::Sequential layers{{"stem", torch::nn::Linear(4, 3)},
                                     {"relu", torch::nn::ReLU(torch::nn::ReLUOptions(true))},
                                     {"head", convnet(3)}};
  const auto model = model_of(layers);
  EXPECT_THAT(model->block_names(), ElementsAre("stem", "relu", "head"));
  EXPECT_EQ(model->block_tensors(2).size(), convnet(3)->parameters().size() + 9);
  const auto clone = model->clone();
  EXPECT_THAT(clone->block_names(), ElementsAre("stem", "relu", "head"));
  const auto input = torch::randn({5, 4});
  testing::expect_same_bits(clone->run_block(0, input), model->run_block(0, input));
  {
    const torch::NoGradGuard no_grad;
    for (const auto& named : clone->block_tensors(0)) named.tensor.zero_();
  }
  EXPECT_EQ(clone->run_block(0, input).abs().max().item<float>(), 0);
  EXPECT_NE(model->run_block(0, input).abs().max().item<float>(), 0) << "runs the clone's";
}

TEST(ModuleBlocksTest, OfASequentialTakeAndGiveOneTensor) {
  const auto model = model_of(torch::nn::Sequential(torch::nn::LSTM(4, 3)));
  testing::expect_error(
      [&] {
        model->forward(torch::ones({2, 1, 4}));
      },
      ErrorKind::Options, "module '0' of a torch::nn::Sequential gives std::tuple");
}

TEST(ModuleBlocksTest, AreThoseThatAModuleLists) {
  const auto module = std::make_shared<ListedImpl>();
  const auto model = model_of(module);
  EXPECT_THAT(model->block_names(), ElementsAre("stem", "head"));
  EXPECT_THAT(names_of(model->block_tensors(0)),
              ElementsAre("scale", "first.weight", "first.bias"));
  EXPECT_THAT(names_of(model->block_tensors(1)), ElementsAre("second.weight", "second.bias"));
  EXPECT_EQ(model->tensors().size(), 6U) << "one belongs to no block";
}

TEST(ModuleBlocksTest, RunInAClonesOwnModules) {
  const auto model = model_of(std::make_shared<ListedImpl>());
  const auto made = made_model([] { return std::make_shared<ListedImpl>(); }, 5);
  for (const auto* original : {&model, &made}) {
    const auto clone = (*original)->clone();
    clone->set_mode(Mode::Evaluate);
    (*original)->set_mode(Mode::Evaluate);
    const auto input = torch::ones({2, 4});
    const auto before = (*original)->forward(input);
    testing::expect_same_bits(clone->forward(input), before);
    {
      const torch::NoGradGuard no_grad;
      for (const auto& named : clone->tensors()) named.tensor.zero_();
    }
    EXPECT_EQ(clone->forward(input).abs().max().item<float>(), 0);
    testing::expect_same_bits((*original)->forward(input), before);
  }
}

TEST(ModuleBlocksTest, DrawByBlockSoThatOneCanBeComputedAlone) {
  const torch::nn::Sequential layers(torch::nn::Dropout(0.5), Dropout(0.5),
                                     torch::nn::Dropout(0.5));
  const auto sequential = model_of(layers);
  const auto listed = model_of(std::make_shared<ListedImpl>());
  for (const auto* model : {&sequential, &listed}) {
    const auto input = torch::ones({64, 4});
    const auto run = [&](std::size_t first, at::Tensor activation) {
      const RandomScope scope({.seed = 1, .step = 2});
      for (auto block = first; block < (*model)->block_names().size(); ++block) {
        activation = (*model)->run_block(block, std::move(activation));
      }
      return activation;
    };
    const auto whole = run(0, input);
    const RandomScope scope({.seed = 1, .step = 2});
    const auto between = (*model)->run_block(0, input);
    testing::expect_same_bits(run(1, between), whole);
  }
  // Two blocks of one model draw apart.
  const RandomScope scope({.seed = 1});
  const auto ones = torch::ones({256});
  EXPECT_FALSE(sequential->run_block(0, ones).equal(sequential->run_block(2, ones)));
}

TEST(ModuleBlocksTest, ThatCannotBeAreRefused) {
  const auto refuse = [](std::vector<Block> blocks, const std::string& text) {
    const auto make = [&] {
      model_of(std::make_shared<Network>([&](Network& net) {
        net.register_module("conv", torch::nn::Linear(2, 2));
        net.register_module("norm", torch::nn::Linear(2, 2));
        for (const auto& block : blocks) net.add_block(block);
      }));
    };
    testing::expect_error(make, ErrorKind::Options, text);
  };
  const auto same = [](at::Tensor x) { return x; };
  refuse({}, "expected at least one block, found none in lockstep::nn::Network");
  refuse({{"a", {"conv"}, same}, {"a", {"norm"}, same}}, "are named 'a'");
  refuse({{"a", {"conv"}, {}}}, "block 'a' of lockstep::nn::Network has nothing to run");
  refuse({{"a", {"con"}, same}}, "block 'a' names 'con', and lockstep::nn::Network has registered");
  refuse({{"a", {"con"}, same}}, "there are: conv, norm");
  testing::expect_error([] { model_of(torch::nn::Sequential(torch::nn::SequentialImpl())); },
                        ErrorKind::Options, "add a module to the Sequential");
}

}  // namespace
}  // namespace lockstep::nn
