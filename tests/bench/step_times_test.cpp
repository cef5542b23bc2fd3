#include "bench/train/step_times.h"

#include <gtest/gtest.h>

namespace lockstep::bench {
namespace {

TEST(StepTimesTest, ComparesWithLibtorchsLayersOnTheSameWork) {
  const auto times = time_steps({.model = {.model = "convnet", .height = 8, .width = 8},
                                 .batch_size = 4,
                                 .threads = 1,
                                 .rounds = 3});
  EXPECT_EQ(times.seconds.size(), 3U);
  EXPECT_EQ(times.libtorch_seconds.size(), 3U);
  EXPECT_GT(times.sgemm_flops, 1e8);
  const double forward = 864.0 * 64 + 18432 * 16 + 73728 * 4 + 1280;
  EXPECT_DOUBLE_EQ(times.flops, 3 * 2 * 4 * forward);
}

}  // namespace
}  // namespace lockstep::bench
