#include "lockstep/nn/layers/dropout.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/random/random_scope.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"

namespace lockstep::nn {
namespace {

constexpr DrawKey kKey{.seed = 7, .step = 3, .replica = 1, .micro_batch = 2};

at::Tensor run_dropout(Dropout layer, const at::Tensor& input, const DrawKey& key = kKey) {
  const RandomScope scope(key);
  return layer(input);
}

TEST(DropoutTest, DropsAboutTheShareThatIsAskedForAndScalesTheRest) {
  const auto output = run_dropout(Dropout(0.25), torch::ones({1000, 100}));
  const auto dropped = (output == 0).to(torch::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.25, 0.005);
  EXPECT_TRUE(((output == 0) | (output == 1 / 0.75F)).all().item<bool>());
}

// Computed in Python, from the paper of Philox.
TEST(DropoutTest, HasKnownBits) {
  const auto output = run_dropout(Dropout(0.5), torch::ones({16}));
  std::string kept;
  for (int i = 0; i < 16; ++i) kept += output[i].item<float>() == 0 ? '0' : '1';
  EXPECT_EQ(kept, "1101101011011111");
}

TEST(DropoutTest, DrawsByKeyNotByThreadsOrMemoryFormat) {
  const auto input = torch::ones({8, 64, 32, 32});
  const auto output = run_dropout(Dropout(0.5), input);
  use_compute_threads(2);
  testing::expect_same_bits(run_dropout(Dropout(0.5), input), output, "2 threads");
  use_compute_threads(1);
  const auto last = run_dropout(Dropout(0.5), input.contiguous(torch::MemoryFormat::ChannelsLast));
  testing::expect_same_bits(last, output, "channels last");
  EXPECT_TRUE(last.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(at::equal(run_dropout(Dropout(0.5), input, {.seed = 8}), output));
}

TEST(DropoutTest, GradientPassesWhereTheInputDid) {
  auto input = torch::randn({50, 50}).requires_grad_();
  const auto output = run_dropout(Dropout(0.5), input);
  output.sum().backward();
  testing::expect_same_bits(input.grad(), (output != 0).to(torch::kFloat) * 2);
}

TEST(DropoutTest, DropsWholeChannels) {
  const auto output = run_dropout(channel_dropout(0.5), torch::ones({8, 64, 4, 4}));
  const auto sums = output.sum({2, 3});
  EXPECT_TRUE(((sums == 0) | (sums == 32)).all().item<bool>());
  EXPECT_NEAR((sums == 0).to(torch::kDouble).mean().item<double>(), 0.5, 0.1);
}

TEST(DropoutTest, DropsWholeSamples) {
  const auto sums = run_dropout(stochastic_depth(0.5), torch::ones({512, 3, 2})).sum({1, 2});
  EXPECT_TRUE(((sums == 0) | (sums == 12)).all().item<bool>());
  EXPECT_NEAR((sums == 0).to(torch::kDouble).mean().item<double>(), 0.5, 0.1);
}

TEST(DropoutTest, AlphaKeepsMeanAndVariance) {
  for (auto layer : {alpha_dropout(0.3), feature_alpha_dropout(0.3)}) {
    const auto output = run_dropout(layer, torch::randn({400, 400}));
    EXPECT_NEAR(output.mean().item<double>(), 0, 0.02);
    EXPECT_NEAR(output.var().item<double>(), 1, 0.02);
  }
}

TEST(DropoutTest, AlphaIsLibtorchsForTheSameMask) {
  const auto input = torch::randn({64, 64});
  const auto ours = run_dropout(alpha_dropout(0.3), input);
  const auto kept = run_dropout(Dropout(0.3), torch::ones({64, 64})) != 0;
  const double alpha = 1.7580993408473766;
  const double a = 1 / std::sqrt((alpha * alpha * 0.3 + 1) * 0.7);
  const auto noise = kept.to(torch::kDouble);
  const auto expected =
      input.to(torch::kDouble) * noise * a + (noise - 1) * alpha * a + alpha * a * 0.3;
  testing::expect_close(ours.to(torch::kDouble), expected, 1e-6);
}

TEST(DropoutTest, HandsItsInputOnWhereNothingIsDropped) {
  const auto input = torch::randn({4, 4});
  EXPECT_TRUE(run_dropout(Dropout(0.0), input).is_same(input));
  Dropout layer(0.5);
  layer->eval();
  EXPECT_TRUE(run_dropout(layer, input).is_same(input));
}

TEST(DropoutTest, DropsEverythingAtOne) {
  EXPECT_EQ(run_dropout(Dropout(1.0), torch::ones({99})).abs().max().item<float>(), 0);
  EXPECT_EQ(run_dropout(alpha_dropout(1.0), torch::ones({99})).abs().max().item<float>(), 0);
}

TEST(DropoutTest, RefusesWhatCannotBeMeant) {
  testing::expect_error([] { Dropout(1.5); }, ErrorKind::Options,
                        "dropout: expected a probability between 0 and 1, found 1.5");
  testing::expect_error([] { Dropout(std::nan("")); }, ErrorKind::Options, "found nan");
  testing::expect_error([] { run_dropout(channel_dropout(0.5), torch::ones({4})); },
                        ErrorKind::Options,
                        "dropout: expected at least 2 dimensions to drop whole channels, found 1");
  testing::expect_error([] { run_dropout(stochastic_depth(0.5), torch::ones({})); },
                        ErrorKind::Options, "to drop whole samples, found 0");
}

TEST(DropoutTest, IsClonedWithItsOptions) {
  auto clone = std::dynamic_pointer_cast<DropoutImpl>(channel_dropout(0.5)->clone());
  const auto input = torch::ones({8, 64, 4, 4});
  testing::expect_same_bits(run_dropout(Dropout(clone), input),
                            run_dropout(channel_dropout(0.5), input));
}

}  // namespace
}  // namespace lockstep::nn
