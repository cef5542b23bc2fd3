#include <gtest/gtest.h>

#include "lockstep/data/sets/synthetic.h"
#include "lockstep/train/backends/gpu/gpu_passes.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

class GpuMemoryTest : public ::testing::Test {
 protected:
  GpuMemoryTest() {
    weights_.num_parameters = kMillion;
    weights_.num_elements = kMillion;
  }

  GpuDemand demand(DataType compute) const {
    return {.weights = weights_,
            .shape = shape_,
            .compute = compute,
            .input = {.replicas = {0, 4}, .micro_batches = 2, .batch_size = 10, .steps = 3},
            .samples = {.fields = {{"image", DataType::U8, {8, 8, 3}}, {"label", DataType::I64}}},
            .kept_bytes = 50 * kMillion};
  }

  WeightLayout weights_;
  StateShape shape_{make_layout(), 2, false};

 private:
  static WeightLayout make_layout() {
    WeightLayout layout;
    layout.num_parameters = kMillion;
    layout.num_elements = kMillion;
    return layout;
  }
};

TEST_F(GpuMemoryTest, HoldsStateSumsSamplesAndActivations) {
  const auto memory = gpu_memory(demand(DataType::F32), 4);
  EXPECT_GE(memory.state, 2 * 3 * 4 * kMillion) << "weights and two states of Adam, twice";
  EXPECT_LT(memory.state, 8 * 4 * kMillion);
  EXPECT_EQ(memory.sums, 2 * 4 * kMillion) << "four replicas come to their sum in two rows";
  EXPECT_EQ(memory.samples, 2 * 3 * 80 * 200 + 80 * 193 * 4);
  EXPECT_EQ(memory.activations, 4 * 67'500'000);
  EXPECT_EQ(memory.total(), memory.state + memory.sums + memory.samples + memory.activations);
}

TEST_F(GpuMemoryTest, KeepsHalfOfTheActivationsInSixteenBits) {
  EXPECT_EQ(gpu_memory(demand(DataType::BF16), 4).activations, 2 * 67'500'000);
}

TEST_F(GpuMemoryTest, SaysHowManyMicroBatchesFit) {
  const auto wanted = demand(DataType::F32);
  for (const std::int64_t groups : {1, 2, 7}) {
    const auto enough = gpu_memory(wanted, groups).total();
    EXPECT_EQ(groups_that_fit(wanted, enough), groups);
    EXPECT_EQ(groups_that_fit(wanted, enough - 1), std::max<std::int64_t>(1, groups - 1));
  }
  EXPECT_EQ(groups_that_fit(wanted, 0), 1) << "with less nothing could be computed at all";
}

TEST_F(GpuMemoryTest, HoldsTheSetWhereItIsStored) {
  auto wanted = demand(DataType::F32);
  const auto travelling = gpu_memory(wanted, 1).samples;
  wanted.samples.stored.emplace();
  wanted.samples.stored->set = data::synthetic({.size = 1000, .height = 8, .width = 8});
  EXPECT_GE(gpu_memory(wanted, 1).samples, 1000 * 200);
  EXPECT_LT(gpu_memory(wanted, 1).samples, 1000 * 200 + travelling + 4096);
}

}  // namespace
}  // namespace lockstep::train
