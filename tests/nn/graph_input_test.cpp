#include "lockstep/nn/graph_input.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <deque>

#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/zoo/resnet.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

constexpr int kMicroBatches = 2;

/// What a step leaves behind: losses, gradients and buffers.
std::vector<at::Tensor> results_of(const Model& model, std::vector<at::Tensor> losses) {
  auto results = std::move(losses);
  for (const auto& slot : slots_of(model.tensors())) {
    const auto& tensor = slot.tensor();
    results.push_back(slot.role == TensorRole::Parameter ? tensor.grad() : tensor);
  }
  return results;
}

at::Tensor images_of(int micro_batch) {
  return make_seeded(1 + micro_batch, [] { return torch::randn({4, 3, 16, 16}); });
}

at::Tensor loss_of(const at::Tensor& logits) {
  return torch::cross_entropy_loss(logits, torch::arange(logits.size(0)));
}

std::vector<at::Tensor> run_whole(const Model& original) {
  const auto model = original.clone();
  std::vector<at::Tensor> losses;
  for (int i = 0; i < kMicroBatches; ++i) {
    losses.push_back(loss_of(model->forward(images_of(i))));
    losses.back().backward();
  }
  return results_of(*model, losses);
}

/// Blocks from each of `begins` on are a graph of their own.
struct Part {
  GraphInput input;
  at::Tensor output;
};

std::deque<Part> forward_in_parts(Model& model, const std::vector<std::size_t>& begins,
                                  at::Tensor activation) {
  std::deque<Part> parts;
  const auto end = model.block_names().size();
  for (std::size_t i = 0; i < begins.size(); ++i) {
    Part part{GraphInput(activation, activation.requires_grad()), {}};
    activation = part.input.take();
    for (auto block = begins[i]; block < (i + 1 < begins.size() ? begins[i + 1] : end); ++block) {
      activation = model.run_block(block, std::move(activation));
    }
    part.output = activation;
    parts.push_back(std::move(part));
  }
  return parts;
}

void backward_in_parts(std::deque<Part> parts, at::Tensor gradient) {
  for (; !parts.empty() && gradient.defined(); parts.pop_back()) {
    run_backward(std::move(parts.back().output), std::move(gradient));
    gradient = parts.back().input.gradient();
  }
}

/// All forward, then all backward, as a pipeline may.
std::vector<at::Tensor> run_in_parts(const Model& original,
                                     const std::vector<std::size_t>& begins) {
  const auto model = original.clone();
  std::vector<std::deque<Part>> passes;
  std::vector<at::Tensor> losses;
  for (int i = 0; i < kMicroBatches; ++i) {
    passes.push_back(forward_in_parts(*model, begins, images_of(i)));
    losses.push_back(loss_of(passes.back().back().output));
    passes.back().back().output = losses.back();
  }
  for (auto& pass : passes) backward_in_parts(std::move(pass), torch::ones({}));
  return results_of(*model, losses);
}

void expect_same(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << what << ", tensor " << i;
    if (found[i].defined()) testing::expect_same_bits(found[i], expected[i], what);
  }
}

TEST(GraphInputTest, AResNetSplitAnywhereKeepsItsBits) {
  const auto model = model_of(resnet20(10));
  const auto whole = run_whole(*model);
  for (std::size_t block = 1; block < 11; ++block) {
    expect_same(run_in_parts(*model, {0, block}), whole, "before block " + std::to_string(block));
  }
  expect_same(run_in_parts(*model, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), whole, "everywhere");
}

TEST(GraphInputTest, APartThatIsFrozenIsNotGoneBackThrough) {
  const auto net = resnet20(10);
  for (const auto& entry : net->named_parameters()) {
    const auto is_front = entry.key().rfind("conv1", 0) == 0 || entry.key().rfind("bn1", 0) == 0 ||
                          entry.key().rfind("layer1", 0) == 0;
    if (is_front) entry.value().set_requires_grad(false);
  }
  const auto model = model_of(net);
  const auto whole = run_whole(*model);
  expect_same(run_in_parts(*model, {0, 4}), whole, "where the frozen part ends");
  expect_same(run_in_parts(*model, {0, 2, 8}), whole, "within");
  const auto parts = forward_in_parts(*model->clone(), {0, 4}, images_of(0));
  EXPECT_FALSE(parts[0].output.requires_grad());
  EXPECT_TRUE(parts[1].output.requires_grad());
}

TEST(GraphInputTest, CatchesTheGradientAsItWasComputed) {
  const auto weights = torch::arange(12.0).view({4, 3});
  GraphInput input(torch::ones({3, 4}), true);
  (input.take().t() * weights).sum().backward();
  const auto gradient = input.gradient();
  testing::expect_same_bits(gradient, weights.t());
  EXPECT_EQ(gradient.strides(), weights.t().strides()) << "a leaf's would have been copied";
  EXPECT_FALSE(input.gradient().defined()) << "moved out";
}

TEST(GraphInputTest, PassesOnGradientsThatAreNotContiguous) {
  const auto weight = make_seeded(3, [] { return torch::randn({6, 5}).requires_grad_(); });
  const auto start = make_seeded(4, [] { return torch::randn({5, 4}); });
  const auto front = [&] { return weight.matmul(start); };
  const auto back = [&](const at::Tensor& x) {
    return (x.t().unfold(1, 3, 1).sum(2) * x.t().narrow(1, 0, 4)).square().sum();
  };
  back(front()).backward();
  const auto whole = weight.grad().clone();
  weight.mutable_grad().reset();
  const auto output = front();
  GraphInput input(output, true);
  back(input.take()).backward();
  auto gradient = input.gradient();
  run_backward(output, std::move(gradient));
  testing::expect_same_bits(weight.grad(), whole);
  // Expanded: all elements are one.
  weight.mutable_grad().reset();
  front().sum().backward();
  const auto sum = weight.grad().clone();
  weight.mutable_grad().reset();
  const auto again = front();
  GraphInput summed(again, true);
  summed.take().sum().backward();
  run_backward(again, summed.gradient());
  testing::expect_same_bits(weight.grad(), sum);
}

TEST(GraphInputTest, SharesMemoryAndMayBeChangedInPlace) {
  const auto weight = torch::full({3}, 2.0).requires_grad_();
  const auto front = weight + torch::tensor({1.0, -5.0, 3.0});
  GraphInput input(front, true);
  auto x = input.take();
  EXPECT_EQ(x.data_ptr(), front.data_ptr());
  x.relu_().sum().backward();
  run_backward(front, input.gradient());
  testing::expect_same_bits(weight.grad(), torch::tensor({1.0F, 0.0F, 1.0F}));
}

TEST(GraphInputTest, LetsAutogradNoticeAChangeInPlaceThatBreaksThePartBefore) {
  const auto weight = torch::ones({3}).requires_grad_();
  const auto front = weight.exp();  // whose backward needs what it gave
  GraphInput input(front, true);
  auto x = input.take();
  x.mul_(2).sum().backward();
  EXPECT_THROW(run_backward(front, input.gradient()), c10::Error);
}

TEST(GraphInputTest, SumsWhatSeveralUsersSend) {
  GraphInput input(torch::ones({2}), true);
  {
    const auto x = input.take();
    (x * 2 + x * 3).sum().backward();
  }
  testing::expect_same_bits(input.gradient(), torch::full({2}, 5.0F));
}

TEST(GraphInputTest, AsksForNoGradientWhereNoneIsWantedOrThereIsNone) {
  GraphInput unwanted(torch::ones({2}), false);
  EXPECT_FALSE(unwanted.take().requires_grad());
  EXPECT_FALSE(unwanted.gradient().defined());
  GraphInput integers(torch::arange(3), true);
  EXPECT_FALSE(integers.take().requires_grad());
  EXPECT_FALSE(integers.gradient().defined());
  GraphInput unused(torch::ones({2}), true);
  EXPECT_TRUE(unused.take().requires_grad());
  EXPECT_FALSE(unused.gradient().defined());
}

TEST(GraphInputTest, RefusesASecondBackwardPass) {
  GraphInput input(torch::ones({2}), true);
  const auto sum = input.take().sum();
  sum.backward({}, /*retain_graph=*/true);
  testing::expect_error([&] { sum.backward(); }, ErrorKind::Bug, "a second backward pass");
}

TEST(GraphInputTest, GoingBackwardUsesTheMemoryOfAGradientThatIsGivenUp) {
  BatchNorm norm(4);
  const auto run = [&](bool gives_up) {
    GraphInput input(make_seeded(5, [] { return torch::randn({8, 4}); }), true);
    auto output = norm->forward_relu(input.take());
    auto gradient = torch::ones({8, 4});
    const auto* const memory = gradient.data_ptr();
    const auto held = gives_up ? at::Tensor() : gradient;
    run_backward(std::move(output), std::move(gradient));
    return input.gradient().data_ptr() == memory;
  };
  EXPECT_TRUE(run(true));
  EXPECT_FALSE(run(false));
}

}  // namespace
}  // namespace lockstep::nn
