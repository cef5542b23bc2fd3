#include "lockstep/nn/memory/block_pool.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "lockstep/nn/memory/kept_activations.h"

namespace lockstep::nn {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BlockPoolTest, GivesTheSameBlockAgainForTheSameSize) {
  BlockPool pool;
  void* const first = pool.take(3 * kMiB);
  pool.give(first);
  void* const again = pool.take(3 * kMiB);
  EXPECT_EQ(again, first);
  EXPECT_EQ(pool.use().asked, 1U);
  pool.give(again);
}

TEST(BlockPoolTest, HoldsEverySizeThatItWasAskedFor) {
  BlockPool pool;
  for (std::size_t bytes = 1; bytes < 40 * kMiB; bytes = bytes * 5 / 4 + 1) {
    auto* const block = static_cast<std::uint8_t*>(pool.take(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U) << bytes;
    std::memset(block, 7, bytes);
    EXPECT_LE(pool.use().taken, bytes * 9 / 8 + 4096) << bytes;
    pool.give(block);
    EXPECT_EQ(pool.use().taken, 0U);
  }
}

TEST(BlockPoolTest, KeepsAStepsMemoryForTheNext) {
  BlockPool pool;
  const auto step = [&] {
    std::vector<void*> blocks;
    for (std::size_t i = 1; i < 50; ++i) blocks.push_back(pool.take(i * 100'000));
    for (auto* block : blocks) pool.give(block);
  };
  step();
  const auto asked = pool.use().asked;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(pool.use().asked, asked);
}

TEST(BlockPoolTest, HoldsAtMostTwiceWhatWasOnceInUse) {
  BlockPool pool;
  for (std::size_t size = kMiB; size < 64 * kMiB; size += kMiB / 3) pool.give(pool.take(size));
  const auto use = pool.use();
  EXPECT_LE(use.waiting, 2 * use.peak);
  EXPECT_LT(use.peak, 80 * kMiB);
}

TEST(BlockPoolTest, GivesBackWhatWaits) {
  BlockPool pool;
  pool.give(pool.take(kMiB));
  EXPECT_GT(pool.use().waiting, 0U);
  pool.release();
  EXPECT_EQ(pool.use().waiting, 0U);
}

TEST(BlockPoolTest, SaysSoWhenThereIsNoMemory) {
  BlockPool pool;
  pool.give(pool.take(kMiB));
  EXPECT_THROW(pool.take(std::size_t{1} << 50), std::bad_alloc);
  EXPECT_THROW(pool.take(~std::size_t{0}), std::bad_alloc);
  EXPECT_EQ(pool.use().taken, 0U);
}

TEST(BlockPoolTest, ServesThreads) {
  BlockPool pool;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool, thread] {
      for (int i = 0; i < 300; ++i) {
        const std::size_t bytes = 40'000 + static_cast<std::size_t>(i % 7) * 30'000;
        auto* const block = static_cast<std::uint8_t*>(pool.take(bytes));
        std::memset(block, thread, bytes);
        EXPECT_EQ(block[bytes - 1], thread);
        pool.give(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool.use().taken, 0U);
}

TEST(BlockPoolTest, CountsTheBytesThatWereAskedFor) {
  BlockPool pool;
  void* const small = pool.take(100);
  void* const large = pool.take(kMiB);
  EXPECT_EQ(pool.use().bytes, kMiB + 100);
  pool.give(large);
  EXPECT_EQ(pool.use().bytes, 100U);
  EXPECT_EQ(pool.use().most_bytes, kMiB + 100);
  pool.restart_peak();
  EXPECT_EQ(pool.use().most_bytes, 100U);
  // The block that waits serves a smaller wish: what was asked for counts.
  void* const again = pool.take(kMiB - 1);
  EXPECT_EQ(again, large);
  EXPECT_EQ(pool.use().most_bytes, kMiB + 99);
  EXPECT_THROW(pool.take(std::size_t{1} << 50), std::bad_alloc);
  EXPECT_EQ(pool.use().most_bytes, kMiB + 99) << "what was refused does not count";
  pool.give(small);
  pool.give(again);
  EXPECT_EQ(pool.use().bytes, 0U);
}

TEST(BlockPoolTest, CountsInThreads) {
  BlockPool pool;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool] {
      for (int i = 0; i < 1000; ++i) {
        void* const small = pool.take(1000);
        pool.give(pool.take(100'000));
        pool.give(small);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool.use().bytes, 0U);
  EXPECT_GE(pool.use().most_bytes, 101'000U);
  EXPECT_LE(pool.use().most_bytes, 4 * 101'000U);
}

TEST(KeptActivationsTest, KeepsTheMemoryOfTensorsWhileItLives) {
  auto& pool = KeptActivations::pool();
  const auto taken = pool.use().taken;
  at::Tensor outlives;
  {
    const KeptActivations kept;
    outlives = torch::ones({1000, 1000});
    EXPECT_GE(pool.use().taken, taken + 4'000'000);
    const auto* const place = outlives.data_ptr();
    outlives.reset();
    outlives = torch::empty({1000, 1000});
    EXPECT_EQ(outlives.data_ptr(), place);
  }
  const auto before = pool.use().taken;
  const auto other = torch::ones({1000, 1000});
  EXPECT_EQ(pool.use().taken, before) << "libtorch's own allocator is back";
  outlives.reset();
  EXPECT_EQ(pool.use().taken, taken);
}

TEST(KeptActivationsTest, ResizesAndTakesEmptyTensors) {
  const KeptActivations kept;
  auto tensor = torch::ones({0});
  tensor.resize_({100'000}).fill_(3);
  tensor.resize_({300'000});
  EXPECT_EQ(tensor[99'999].item<float>(), 3);
}

}  // namespace
}  // namespace lockstep::nn
