#include "lockstep/nn/trial.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/multiply_adds.h"
#include "lockstep/nn/zoo/zoo.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

/// A module that gives whatever it is told to.
struct GivingImpl : torch::nn::Cloneable<GivingImpl> {
  explicit GivingImpl(std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> give_)
      : give(std::move(give_)) {
    GivingImpl::reset();
  }
  void reset() override { weight = register_parameter("weight", torch::ones({1})); }
  at::Tensor forward(const at::Tensor& input) { return give(input, weight); }

  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> give;
  at::Tensor weight;
};

std::int64_t try_giving(std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> give) {
  return try_step(*model_of(std::make_shared<GivingImpl>(std::move(give))), {2, 3, 4, 4});
}

TEST(TrialTest, TellsTheClassesAndLeavesTheModelAlone) {
  const auto model = model_of(convnet(7));
  const auto before = digest_of(*model);
  EXPECT_EQ(try_step(*model, {2, 3, 8, 8}), 7);
  EXPECT_EQ(digest_of(*model), before);
}

TEST(TrialTest, RefusesWhatIsNoLogits) {
  testing::expect_error([] { try_giving([](auto& x, auto& w) { return x * w; }); },
                        ErrorKind::Options,
                        "expected logits [2, classes] for 2 pictures, found Float [2, 3, 4, 4]");
  testing::expect_error([] { try_giving([](auto& x, auto&) { return x.flatten(1).detach(); }); },
                        ErrorKind::Options, "in a way that can be derived");
}

TEST(TrialTest, RefusesPicturesThatTheModelCannotTake) {
  testing::expect_error(
      [] {
        try_step(*model_of(convnet(7)), {2, 3, 3, 3});
      },
      ErrorKind::Options, "at least 4 x 4");
}

TEST(MultiplyAddsTest, AreThoseOfThePapers) {
  const auto count = [](const char* name, std::int64_t classes, std::int64_t size) {
    const auto net =
        make_network({.name = name, .classes = classes, .size = {size, size}, .options = {}});
    net->eval();
    const torch::NoGradGuard no_grad;
    return count_multiply_adds([&] { net->forward(torch::zeros({1, 3, size, size})); });
  };
  // He et al.: 1.8 and 3.8 billion (with the stride in the 1x1; torchvision's have 4.1).
  EXPECT_EQ(count("resnet18", 1000, 224), 1814073344);
  EXPECT_EQ(count("resnet50", 1000, 224), 4089184256);
  EXPECT_EQ(count("mlp", 10, 32), 3072 * 256 + 256 * 128 + 128 * 10);
}

}  // namespace
}  // namespace lockstep::nn
