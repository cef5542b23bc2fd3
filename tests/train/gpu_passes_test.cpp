#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {
namespace {

/// "r0-3 g0-1; …": replicas and micro-batches of each pass.
std::string text_of(const std::vector<GpuPass>& passes) {
  std::string text;
  for (const auto& pass : passes) {
    text += (text.empty() ? "r" : "; r") + std::to_string(pass.first_replica) + "-" +
            std::to_string(pass.first_replica + pass.replicas - 1) + " g" +
            std::to_string(pass.first_micro_batch) + "-" +
            std::to_string(pass.first_micro_batch + pass.micro_batches - 1);
  }
  return text;
}

constexpr GpuInputShape kFour{.replicas = {4, 4}, .micro_batches = 2, .batch_size = 8};

TEST(GpuPassesTest, TakeAllMicroBatchesOfAllReplicasAtOnce) {
  EXPECT_EQ(text_of(choose_passes(kFour, Fuse::Auto, false, 8)), "r4-7 g0-1");
  EXPECT_EQ(text_of(choose_passes(kFour, Fuse::Auto, false, 1000)), "r4-7 g0-1");
}

TEST(GpuPassesTest, TakeOneReplicaAtATimeWhereBitsCount) {
  EXPECT_EQ(text_of(choose_passes(kFour, Fuse::Auto, true, 8)),
            "r4-4 g0-1; r5-5 g0-1; r6-6 g0-1; r7-7 g0-1");
  EXPECT_EQ(text_of(choose_passes(kFour, Fuse::Auto, true, 1)),
            "r4-4 g0-1; r5-5 g0-1; r6-6 g0-1; r7-7 g0-1");
}

TEST(GpuPassesTest, TakeAsManyAsFitMemoryEvenly) {
  EXPECT_EQ(text_of(choose_passes(kFour, Fuse::Auto, false, 7)), "r4-5 g0-1; r6-7 g0-1");
  EXPECT_EQ(text_of(choose_passes(kFour, Fuse::Auto, false, 3)),
            "r4-4 g0-1; r5-5 g0-1; r6-6 g0-1; r7-7 g0-1");
  const GpuInputShape long_one{.replicas = {0, 1}, .micro_batches = 6, .batch_size = 8};
  EXPECT_EQ(text_of(choose_passes(long_one, Fuse::Auto, false, 4)), "r0-0 g0-2; r0-0 g3-5");
}

TEST(GpuPassesTest, TakeOneMicroBatchAtATimeWhereNothingIsFused) {
  const GpuInputShape two{.replicas = {0, 2}, .micro_batches = 2, .batch_size = 8};
  EXPECT_EQ(text_of(choose_passes(two, Fuse::Off, false, 8)),
            "r0-0 g0-0; r0-0 g1-1; r1-1 g0-0; r1-1 g1-1");
}

}  // namespace
}  // namespace lockstep::train
