#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/layers/batch_norm_function.h"
#include "lockstep/nn/random/random_scope.h"
#include "tests/nn/tensors.h"

namespace lockstep::nn {
namespace {

/// Which users of the layer's output have a say in the loss.
struct Users {
  bool first;
  bool second;
};

struct Case {
  bool adds;  ///< with a residual
  bool wants_residual;
  Users users;
  friend std::ostream& operator<<(std::ostream& stream, const Case& one) {
    return stream << "adds " << one.adds << ", wants its gradient " << one.wants_residual
                  << ", users " << one.users.first << one.users.second;
  }
};

class SecondUserTest : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All, SecondUserTest,
    ::testing::Values(Case{true, true, {true, true}}, Case{true, true, {true, false}},
                      Case{true, true, {false, true}}, Case{true, false, {true, true}},
                      Case{false, false, {true, true}}, Case{false, false, {false, true}}));

enum class Computation { Apart, Together };

std::vector<at::Tensor> gradients(const Case& one, Computation way) {
  const RandomScope scope({.seed = 4});
  const auto noise = [] { return torch::randn({4, 16, 6, 6}); };
  const auto x = noise().requires_grad_();
  const auto residual = noise().requires_grad_(one.wants_residual);
  const auto weights = noise();
  const auto more_weights = noise();
  BatchNorm layer(16);
  const auto y = one.adds ? layer->forward_add_relu(x, residual) : layer->forward_relu(x);
  const auto again = way == Computation::Apart ? for_second_user(y) : y;
  EXPECT_EQ(again.is_same(y), way == Computation::Together);
  auto loss = torch::zeros({});
  if (one.users.first) loss = loss + (y * weights).sum();
  if (one.users.second) loss = loss + (again * more_weights).sum();
  loss.backward();
  std::vector<at::Tensor> all{x.grad(), layer->weight.grad(), layer->bias.grad()};
  if (one.adds && one.wants_residual) all.push_back(residual.grad());
  return all;
}

TEST_P(SecondUserTest, GivesTheBitsThatAutogradsOwnSumGives) {
  const auto apart = gradients(GetParam(), Computation::Apart);
  const auto together = gradients(GetParam(), Computation::Together);
  ASSERT_EQ(apart.size(), together.size());
  for (std::size_t i = 0; i < apart.size(); ++i) {
    testing::expect_same_bits(apart[i], together[i], std::to_string(i));
  }
}

TEST(SecondUsersTest, ChangesInPlaceAreNoticed) {
  const auto x = torch::randn({4, 3, 2, 2}).requires_grad_();
  BatchNorm layer(3);
  const auto y = layer->forward_add_relu(x, torch::ones_like(x));
  const auto second = for_second_user(y);
  {
    const torch::NoGradGuard no_grad;
    second.mul_(-1);
  }
  EXPECT_THROW((second * second).sum().backward(), c10::Error);
}

TEST(OnlyUserTest, IsTheTensorItselfWhereNoSuchLayerMadeIt) {
  const auto leaf = torch::ones({2, 3}).requires_grad_();
  EXPECT_TRUE(for_second_user(leaf).is_same(leaf));
  const auto computed = leaf * 2;
  EXPECT_TRUE(for_second_user(computed).is_same(computed));
  BatchNorm layer(3);
  const auto y = layer->forward(leaf);
  const auto second = for_second_user(y);
  EXPECT_FALSE(second.is_same(y));
  EXPECT_TRUE(for_second_user(y).is_same(y)) << "a third one";
  const torch::NoGradGuard no_grad;
  const auto unrecorded = layer->forward(leaf);
  EXPECT_TRUE(for_second_user(unrecorded).is_same(unrecorded));
}

}  // namespace
}  // namespace lockstep::nn
