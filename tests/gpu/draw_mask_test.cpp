#include "lockstep/gpu/layers/draw_mask.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

TEST(DrawMaskTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_THROW(draw_mask({}, nullptr), Error);
}

constexpr std::uint64_t kSeed = 0x1234'5678'9abc'def0;
constexpr std::int64_t kStep = (std::int64_t{1} << 33) + 5;
constexpr DrawPlace kPlace{.block = 7, .call = 2};

/// What each group would draw by itself, as its micro-batch does on a CPU.
std::vector<bool> kept_units(const MaskCall& call) {
  std::vector<bool> kept;
  const auto& keys = call.keys;
  for (std::uint32_t group = 0; group < keys.groups; ++group) {
    const auto key =
        key_of_micro_batch(keys.seed, kStep, keys.first_replica + group / keys.micro_batches,
                           keys.first_micro_batch + group % keys.micro_batches);
    const auto stream = stream_of_call(key, call.place);
    for (std::int64_t unit = 0; unit < call.units; ++unit) {
      const auto words = stream.words(static_cast<std::uint64_t>(unit / 4));
      kept.push_back(words[static_cast<std::size_t>(unit % 4)] >= call.limit);
    }
  }
  return kept;
}

template <typename Number>
void expect_masks(DataType type, Number one) {
  const OnDevice<std::int64_t> step(std::vector<std::int64_t>{kStep});
  for (const std::int64_t units : {1, 3, 4, 1021, 4096}) {
    MaskCall call{.keys = {.seed = kSeed,
                           .step = step.data(),
                           .first_replica = 3,
                           .first_micro_batch = 1,
                           .micro_batches = 2,
                           .groups = 6},
                  .place = kPlace,
                  .limit = std::uint64_t{1} << 31,
                  .units = units,
                  .type = type};
    const OnDevice<Number> mask(static_cast<std::size_t>(6 * units));
    call.mask = mask.data();
    draw_mask(call, nullptr);
    std::vector<Number> expected;
    for (const bool kept : kept_units(call)) expected.push_back(kept ? one : Number{});
    EXPECT_EQ(mask.values(), expected) << units;
  }
}

using DrawMaskOnDeviceTest = DeviceTest;

TEST_F(DrawMaskOnDeviceTest, DropsWhatTheCpuDrops) {
  expect_masks<float>(DataType::F32, 1);
  expect_masks<std::uint16_t>(DataType::F16, 0x3c00);
  expect_masks<std::uint16_t>(DataType::BF16, 0x3f80);
}

TEST_F(DrawMaskOnDeviceTest, KeepsOrDropsAllAtTheLimits) {
  const OnDevice<std::int64_t> step(std::vector<std::int64_t>{0});
  for (const bool keeps : {true, false}) {
    const OnDevice<float> mask(1000);
    draw_mask({.keys = {.seed = kSeed, .step = step.data()},
               .limit = keeps ? 0 : std::uint64_t{1} << 32,
               .units = 1000,
               .mask = mask.data()},
              nullptr);
    EXPECT_EQ(mask.values(), std::vector<float>(1000, keeps ? 1 : 0));
  }
}

}  // namespace
}  // namespace lockstep::gpu
