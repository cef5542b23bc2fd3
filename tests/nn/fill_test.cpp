#include "lockstep/nn/random/fill.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/random/normal_quantile.h"
#include "tests/nn/tensors.h"

namespace lockstep::nn {
namespace {

double share_below(double x) {
  return std::erfc(-x / std::sqrt(2.0)) / 2;
}

TEST(NormalQuantileTest, InvertsTheDistribution) {
  for (const double p : {0.5, 0.25, 0.9, 0.075, 0.0749999, 0.925, 1e-3, 1e-6, 1e-10, 2.328e-10,
                         1e-12, 1e-300, 0.999999}) {
    EXPECT_NEAR(share_below(normal_quantile(p)) / p, 1, 3e-12) << p;
  }
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_EQ(normal_quantile(0.25), -normal_quantile(0.75));
}

TEST(FillTest, HasTheDistributionThatIsAskedFor) {
  const auto normal = torch::empty({1000, 1000});
  fill_normal(normal, 0.5, weights_stream(1, "a"));
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.002);
  EXPECT_NEAR(normal.std().item<double>(), 0.5, 0.001);
  EXPECT_NEAR((normal > 1).to(torch::kDouble).mean().item<double>(), 0.02275, 0.0005);

  const auto uniform = torch::empty({1000, 1000});
  fill_uniform(uniform, 0.5, weights_stream(1, "a"));
  EXPECT_NEAR(uniform.mean().item<double>(), 0, 0.001);
  EXPECT_NEAR(uniform.std().item<double>(), 0.5 / std::sqrt(3), 0.001);
  EXPECT_LE(uniform.abs().max().item<double>(), 0.5);
}

// Computed in Python, from the papers of Philox and of AS 241.
TEST(FillTest, HasKnownBits) {
  const auto values = torch::empty({5});
  fill_normal(values, 1, weights_stream(2022, "conv1.weight"));
  const auto found = values.view(torch::kInt32);
  const auto expected =
      torch::tensor({1033602718, 1056541193, -1081398344, -1080827323, 1069373511}, torch::kInt32);
  EXPECT_TRUE(at::equal(found, expected)) << found << values;
}

TEST(FillTest, DependsOnSeedAndNameAndNothingElse) {
  const auto drawn = [](std::uint64_t seed, const char* name, torch::MemoryFormat format) {
    const auto tensor = torch::empty({64, 32, 3, 3}, torch::kFloat, format);
    fill_normal(tensor, 1, weights_stream(seed, name));
    return tensor;
  };
  const auto first = drawn(1, "a", torch::MemoryFormat::Contiguous);
  testing::expect_same_bits(drawn(1, "a", torch::MemoryFormat::ChannelsLast), first);
  use_compute_threads(2);
  testing::expect_same_bits(drawn(1, "a", torch::MemoryFormat::Contiguous), first);
  use_compute_threads(1);
  EXPECT_FALSE(at::equal(drawn(2, "a", torch::MemoryFormat::Contiguous), first));
  EXPECT_FALSE(at::equal(drawn(1, "b", torch::MemoryFormat::Contiguous), first));
}

}  // namespace
}  // namespace lockstep::nn
