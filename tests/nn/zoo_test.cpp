#include "lockstep/nn/zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "lockstep/nn/module_model.h"
#include "lockstep/nn/random/random_scope.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;

NetworkRequest request(const std::string& name, std::int64_t classes = 10) {
  return {.name = name, .classes = classes, .size = {}, .options = {}};
}

struct Known {
  const char* name;
  std::int64_t classes;
  std::int64_t parameters;
  friend std::ostream& operator<<(std::ostream& stream, const Known& known) {
    return stream << known.name;
  }
};

class ZooTest : public ::testing::TestWithParam<Known> {};

TEST_P(ZooTest, HasThePublishedNumberOfParameters) {
  const auto model = model_of(make_network(request(GetParam().name, GetParam().classes)));
  EXPECT_EQ(count_parameters(*model), GetParam().parameters);
}

// torchvision's, as printed by sum(p.numel() for p in model.parameters()); those of the paper
// (0.27, 0.46, 0.66, 0.85 and 1.7 million) with 10 classes.
INSTANTIATE_TEST_SUITE_P(
    All, ZooTest,
    ::testing::Values(Known{"resnet18", 1000, 11689512}, Known{"resnet34", 1000, 21797672},
                      Known{"resnet50", 1000, 25557032}, Known{"resnet101", 1000, 44549160},
                      Known{"resnet152", 1000, 60192808}, Known{"resnet20", 10, 269722},
                      Known{"resnet32", 10, 464154}, Known{"resnet44", 10, 658586},
                      Known{"resnet56", 10, 853018}, Known{"resnet110", 10, 1727962},
                      Known{"convnet", 10, 94762}, Known{"mlp", 10, 820874}));

class EveryNetworkTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, EveryNetworkTest, ::testing::ValuesIn(network_names()));

/// One of each kind: the deep ones take seconds.
class QuickNetworkTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, QuickNetworkTest,
                         ::testing::Values("mlp", "convnet", "resnet20", "resnet18", "resnet50"));

at::Tensor picture_batch(std::int64_t samples, std::int64_t channels) {
  return make_seeded(3, [&] { return torch::randn({samples, channels, 32, 32}); });
}

TEST_P(EveryNetworkTest, StartsWithALossNearThatOfGuessingAndGradientsForAll) {
  const auto net = make_network(request(GetParam(), 7));
  const auto loss =
      torch::cross_entropy_loss(net->forward(picture_batch(16, 3)), torch::arange(16) % 7);
  EXPECT_NEAR(loss.item<double>(), std::log(7), 0.6);
  loss.backward();
  for (const auto& parameter : net->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
    EXPECT_EQ(parameter.value().grad().strides(), parameter.value().strides()) << parameter.key();
  }
}

TEST_P(EveryNetworkTest, IsTheSumOfItsBlocks) {
  const auto net = make_network(request(GetParam()));
  net->eval();
  const torch::NoGradGuard no_grad;
  auto activation = picture_batch(2, 3);
  const auto whole = net->forward(activation);
  std::set<std::string> owners;
  for (std::size_t block = 0; block < net->blocks().size(); ++block) {
    activation = net->run_block(block, activation);
    for (const auto& module : net->blocks()[block].modules) {
      EXPECT_TRUE(owners.insert(module).second) << module << " is in two blocks";
    }
  }
  testing::expect_same_bits(activation, whole);
  for (const auto& parameter : net->named_parameters()) {
    const auto owns = [&](const std::string& owner) {
      return parameter.key().rfind(owner + ".", 0) == 0;
    };
    EXPECT_EQ(std::count_if(owners.begin(), owners.end(), owns), 1) << parameter.key();
  }
}

TEST_P(QuickNetworkTest, StartsWithTheWeightsOfItsSeed) {
  torch::manual_seed(1);
  const auto first = make_network(request(GetParam()));
  torch::manual_seed(2);
  const auto second = make_network(request(GetParam()));
  auto other_seed = request(GetParam());
  other_seed.options.seed = 1;
  const auto other = make_network(other_seed);
  for (const auto& entry : first->named_parameters()) {
    testing::expect_same_bits(second->named_parameters()[entry.key()], entry.value(), entry.key());
    const bool is_drawn = entry.value().dim() > 1;
    if (is_drawn) {
      EXPECT_FALSE(at::equal(other->named_parameters()[entry.key()], entry.value()));
    }
  }
}

TEST_P(QuickNetworkTest, TakesOneChannel) {
  auto wanted = request(GetParam());
  wanted.options.channels = 1;
  const auto logits = make_network(wanted)->forward(picture_batch(4, 1));
  EXPECT_THAT(logits.sizes().vec(), ElementsAre(4, 10));
}

TEST_P(QuickNetworkTest, IsClonedWithAllThatItHolds) {
  const auto net = make_network(request(GetParam()));
  net->forward(picture_batch(4, 3));  // moves the running statistics
  net->eval();
  const auto clone = std::dynamic_pointer_cast<Network>(net->clone());
  const torch::NoGradGuard no_grad;
  const auto input = picture_batch(2, 3);
  testing::expect_same_bits(clone->forward(input), net->forward(input));
  for (auto& parameter : clone->parameters()) parameter.zero_();
  EXPECT_NE(net->forward(input).abs().max().item<float>(), 0) << "the clone shares memory";
}

TEST(ZooShapeTest, NamesItsBlocks) {
  const auto names = [](const std::string& name) {
    return model_of(make_network(request(name)))->block_names();
  };
  EXPECT_THAT(names("resnet18"),
              ElementsAre("stem", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer3.0",
                          "layer3.1", "layer4.0", "layer4.1", "head"));
  EXPECT_THAT(names("convnet"), ElementsAre("stem", "layer1", "layer2", "head"));
  EXPECT_THAT(names("mlp"), ElementsAre("stem", "hidden", "head"));
  EXPECT_EQ(names("resnet101").at(16), "layer3.8");
  EXPECT_EQ(names("resnet110").size(), 56U);
}

TEST(ZooShapeTest, HasTheInitialWeightsOfTorchvision) {
  const auto net = resnet50(1000);
  const auto parameters = net->named_parameters();
  const auto deviation = [&](const char* name) { return parameters[name].std().item<double>(); };
  EXPECT_NEAR(deviation("conv1.weight"), std::sqrt(2.0 / (64 * 49)), 3e-4);
  EXPECT_NEAR(deviation("layer3.2.conv2.weight"), std::sqrt(2.0 / (256 * 9)), 1e-4);
  EXPECT_NEAR(deviation("layer4.0.downsample.0.weight"), std::sqrt(2.0 / 2048), 1e-4);
  EXPECT_NEAR(deviation("fc.weight"), 1 / std::sqrt(2048 * 3), 1e-4);
  EXPECT_EQ(deviation("layer1.0.bn2.weight"), 0);
  EXPECT_EQ(parameters["layer1.0.bn2.weight"].mean().item<double>(), 1);
}

TEST(ZooShapeTest, TakesPicturesOfAnySizeThatItCan) {
  for (const auto* name : {"resnet18", "resnet50", "resnet20"}) {
    const auto net = make_network(request(name));
    for (const auto& size : {std::pair{1, 1}, std::pair{33, 65}}) {
      const auto logits = net->forward(torch::randn({2, 3, size.first, size.second}));
      EXPECT_THAT(logits.sizes().vec(), ElementsAre(2, 10));
    }
  }
}

TEST(ZooShapeTest, SaysWhichPicturesItTakes) {
  const auto small = [](const char* name, PictureSize size) {
    auto wanted = request(name);
    wanted.size = size;
    make_network(wanted);
  };
  testing::expect_error(
      [&] {
        small("convnet", {3, 32});
      },
      ErrorKind::Options, "network: expected pictures of at least 4 x 4, found [3, 3, 32]");
  const auto net = resnet20(10);
  testing::expect_error(
      [&] {
        net->forward(torch::ones({2, 1, 32, 32}));
      },
      ErrorKind::Options, "expected pictures of 3 channels, found [1, 32, 32]");
  testing::expect_error(
      [&] {
        net->forward(torch::ones({3, 32, 32}));
      },
      ErrorKind::Options, "expected pictures of shape [channels, height, width], found [32, 32]");
  testing::expect_error(
      [] {
        mlp(10)->forward(torch::ones({2, 3, 64, 32}));
      },
      ErrorKind::Options, "expected pictures of just 32 x 32, found [3, 64, 32]");
}

TEST(ZooShapeTest, SaysWhichNetworksThereAre) {
  testing::expect_error([] { make_network(request("resnet21")); }, ErrorKind::Options,
                        "model: there is no 'resnet21'");
  testing::expect_error([] { make_network(request("resnet21")); }, ErrorKind::Options,
                        "one of mlp, convnet, resnet20,");
  testing::expect_error([] { make_network(request("resnet20", 0)); }, ErrorKind::Options,
                        "model: expected 1 or more classes, found 0");
  auto wanted = request("resnet20");
  wanted.options.channels = -1;
  testing::expect_error([&] { make_network(wanted); }, ErrorKind::Options,
                        "expected 1 or more channels, found -1");
}

}  // namespace
}  // namespace lockstep::nn
