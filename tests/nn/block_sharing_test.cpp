#include "lockstep/nn/block_sharing.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/nn/graph_input.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/zoo/resnet.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

/// Four blocks; what the last one computes with, and what it says so of, is told.
struct ChainImpl : torch::nn::Cloneable<ChainImpl> {
  explicit ChainImpl(std::vector<std::string> named_) : named(std::move(named_)) {
    ChainImpl::reset();
  }
  void reset() override {
    for (const auto* name : {"a", "b", "c", "d"}) {
      layers.push_back(register_module(name, torch::nn::Linear(4, 4)));
    }
    scale = register_parameter("scale", torch::ones({4}));
  }
  std::vector<Block> blocks() {
    const auto run = [this](std::size_t layer) {
      return [this, layer](const at::Tensor& x) { return layers[layer](x); };
    };
    return {{"one", {"a"}, run(0)},
            {"two", {"b"}, run(1)},
            {"three", {"c"}, run(2)},
            {"four", named, [this](const at::Tensor& x) { return layers[3](x) * scale; }}};
  }

  std::vector<std::string> named;
  std::vector<torch::nn::Linear> layers;
  at::Tensor scale;
};

TEST(BlockSharingTest, NothingIsSharedInAResNet) {
  const auto model = model_of(resnet20(10));
  const auto profile = list_blocks(*model);
  ASSERT_EQ(profile.blocks.size(), 11U);
  std::int64_t parameters = 0;
  for (std::size_t i = 0; i < 11; ++i) {
    const auto& block = profile.blocks[i];
    EXPECT_EQ(block.name, model->block_names()[i]);
    EXPECT_EQ(block.shares, "");
    EXPECT_EQ(block.shares_with, static_cast<int>(i));
    parameters += block.parameter_bytes;
  }
  EXPECT_EQ(parameters, 4 * count_parameters(*model));
  EXPECT_EQ(profile.blocks[0].parameter_bytes, 4 * (3 * 16 * 9 + 2 * 16));
  EXPECT_EQ(profile.blocks[0].buffer_bytes, 4 * 2 * 16 + 8);
  EXPECT_FALSE(profile.is_timed);
}

TEST(BlockSharingTest, NamesTheFirstBlockThatOneSharesMemoryWith) {
  const auto module = std::make_shared<ChainImpl>(std::vector<std::string>{"d", "scale"});
  module->layers[2]->weight.set_data(module->layers[0]->weight.data());
  module->layers[3]->bias.set_data(module->layers[1]->bias.data());
  const auto model = model_of(module);
  const auto clone = model->clone();
  for (const auto* each : {model.get(), clone.get()}) {
    const auto profile = list_blocks(*each);
    EXPECT_EQ(profile.blocks[1].shares_with, 1);
    EXPECT_EQ(profile.blocks[2].shares_with, 0);
    EXPECT_EQ(profile.blocks[2].shares, "c.weight");
    EXPECT_EQ(profile.blocks[2].parameter_bytes, 4 * 4) << "the weight is the first block's";
    EXPECT_EQ(profile.blocks[3].shares_with, 1);
    EXPECT_EQ(profile.blocks[3].shares, "d.bias");
  }
}

TEST(BlockSharingTest, ALayerThatASequentialHasTwiceIsShared) {
  const torch::nn::Linear layer(4, 4);
  const auto model = model_of(torch::nn::Sequential(layer, torch::nn::Tanh(), layer));
  const auto profile = list_blocks(*model);
  EXPECT_EQ(profile.blocks[1].shares_with, 1);
  EXPECT_EQ(profile.blocks[2].shares_with, 0);
  EXPECT_EQ(profile.blocks[2].parameter_bytes, 0);
}

TEST(BlockSharingTest, CountsWhatIsFrozenForNobodyAndWhatNobodyOwnsForTheLast) {
  const auto module = std::make_shared<ChainImpl>(std::vector<std::string>{"d"});
  module->layers[0]->weight.set_requires_grad(false);
  const auto profile = list_blocks(*model_of(module));
  EXPECT_EQ(profile.blocks[0].parameter_bytes, 4 * 4);
  EXPECT_EQ(profile.blocks[0].buffer_bytes, 0);
  EXPECT_EQ(profile.blocks[3].parameter_bytes, 4 * (16 + 4 + 4));
}

TEST(BlockSharingTest, OneBlockOwnsAll) {
  const auto model = model_of(torch::nn::Linear(4, 3));
  EXPECT_EQ(list_blocks(*model).blocks.at(0).parameter_bytes, 4 * 15);
  check_owners(*model);
}

TEST(BlockSharingTest, SaysWhatBelongsToNoBlock) {
  check_owners(*model_of(std::make_shared<ChainImpl>(std::vector<std::string>{"d", "scale"})));
  const auto model = model_of(std::make_shared<ChainImpl>(std::vector<std::string>{"d"}));
  testing::expect_error([&] { check_owners(*model); }, ErrorKind::Options,
                        "belongs to a block, and 'scale' to none");
}

TEST(BlockSharingTest, SaysWhichParameterAStageUsesThatIsNotItsOwn) {
  const auto run = [](const std::vector<std::string>& named, std::size_t first) {
    const auto model = model_of(std::make_shared<ChainImpl>(named));
    GraphInput input(torch::ones({2, 4}), true);
    auto activation = input.take();
    for (auto block = first; block < 4; ++block) {
      activation = model->run_block(block, std::move(activation));
    }
    check_uses(*model, first, 4, activation.sum());
  };
  run({"d", "scale"}, 2);
  run({"d", "scale"}, 3);
  testing::expect_error([&] { run({"d"}, 2); }, ErrorKind::Options,
                        "the stage of blocks 'three' to 'four' computes with 'scale'");
  testing::expect_error(
      [&] {
        run({"scale", "a"}, 3);
      },
      ErrorKind::Options, "block 'four' computes with 'd.");
  testing::expect_error([&] { run({"d"}, 3); }, ErrorKind::Options, "in Block::modules");
}

TEST(BlockSharingTest, AStageMayUseWhatItHasByAnyName) {
  const auto net = std::make_shared<Network>([](Network& described) {
    auto layer = described.register_module("first", torch::nn::Linear(4, 4));
    described.register_module("second", layer);
    const auto run = [layer](const at::Tensor& x) mutable { return layer->forward(x); };
    described.add_block({"a", {"first"}, run});
    described.add_block({"b", {"second"}, run});
  });
  const auto model = model_of(net);
  check_uses(*model, 1, 2, model->run_block(1, torch::ones({2, 4})));
  check_uses(*model, 0, 1, torch::ones({2, 4}));  // a graph without anything in it
}

}  // namespace
}  // namespace lockstep::nn
