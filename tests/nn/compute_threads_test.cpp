#include "lockstep/nn/compute_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

#include "tests/nn/tensors.h"

namespace lockstep::nn {
namespace {

TEST(ComputeThreadsTest, BindsTheCallingThreadOnly) {
  use_compute_threads(2);
  std::thread([] {
    use_compute_threads(1);
    EXPECT_EQ(at::get_num_threads(), 1);
  }).join();
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(ComputeThreadsTest, ReachesTheBlas) {
  // With 2 threads OpenBLAS splits this product otherwise, and rounds otherwise.
  const auto input = at::randn({64, 512});
  const auto weight = at::randn({10, 512});
  use_compute_threads(1);
  const auto alone = at::linear(input, weight);
  use_compute_threads(2);
  at::linear(input, weight);
  use_compute_threads(1);
  testing::expect_same_bits(at::linear(input, weight), alone);
}

}  // namespace
}  // namespace lockstep::nn
