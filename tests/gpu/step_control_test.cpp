#include "lockstep/gpu/update/step_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "lockstep/gpu/update/update.h"
#include "tests/gpu/numbers.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(StepControlTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_ANY_THROW(begin_launch(nullptr, nullptr));
  EXPECT_ANY_THROW(decide({}, nullptr, nullptr));
  EXPECT_ANY_THROW(end_step({}, nullptr, nullptr));
}

using StepControlOnDeviceTest = DeviceTest;

TEST_F(StepControlOnDeviceTest, MeasuresAsTheCpu) {
  const std::vector<Extent> tensors{{0, 1},        {16, 4096},    {4112, 10007}, {14128, 15},
                                    {14144, 4097}, {18256, 2048}, {20305, 900},  // unaligned
                                    {21205, 12345}};
  const auto table = cut_into_chunks(tensors);
  const OnDevice<Chunk> chunks(table);
  auto sum = wide_floats(33550, 3, 40);
  sum[5000] = kInfinity;
  sum[5100] = kNan;
  sum[15000] = -kInfinity;
  const OnDevice<float> sum_there(sum);
  for (const float divisor : {1.0F, 8.0F, 6.0F}) {
    const OnDevice<ChunkMeasure> measured(table.size());
    measure(sum_there.data(), divisor, {chunks.data(), static_cast<std::int32_t>(table.size())},
            measured.data(), nullptr);
    const auto found = measured.values();
    auto divided = sum;
    optimizer::divide(divisor, divided);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const auto chunk = std::span(divided).subspan(static_cast<std::size_t>(table[i].first),
                                                    static_cast<std::size_t>(table[i].count));
      EXPECT_TRUE(same_bits(found[i].squares, optimizer::sum_of_squares(chunk)))
          << i << ", by " << divisor << ": " << found[i].squares;
      EXPECT_EQ(found[i].not_finite, optimizer::count_not_finite(chunk)) << i;
    }
  }
}

/// What a chunk may have come to.
std::vector<ChunkMeasure> measures(std::size_t count, unsigned seed) {
  std::vector<ChunkMeasure> result;
  for (const float value : plain_floats(count, seed, 0, 1)) {
    result.push_back({.squares = static_cast<double>(value) / 3});
  }
  return result;
}

/// `WeightUpdate::clip_factor`.
float clip_factor(double clip_norm, const std::vector<ChunkMeasure>& measured) {
  double squares = 0;
  for (const auto& chunk : measured) squares += chunk.squares;
  return static_cast<float>(std::min(1.0, clip_norm / (std::sqrt(squares) + 1e-6)));
}

struct Findings {
  std::vector<ChunkMeasure> measured;
  Floats losses{1, 2};
  double clip_norm = 0;
  bool has_loss_scaling = false;
};

StepControl decided(const Findings& findings) {
  const OnDevice<ChunkMeasure> measured(findings.measured);
  const OnDevice<float> losses(findings.losses);
  const OnDevice<StepControl> control(std::vector<StepControl>{
      {.good_steps = 7, .step = 3, .updates = 2, .skipped = 1, .clip = 5, .loss_scale = 8}});
  decide(
      {.measured = measured.data(),
       .num_chunks = static_cast<std::int32_t>(findings.measured.size()),
       .losses = losses.data(),
       .num_losses = static_cast<std::int32_t>(findings.losses.size()),
       .rules = {.clip_norm = findings.clip_norm, .has_loss_scaling = findings.has_loss_scaling}},
      control.data(), nullptr);
  const auto found = control.values().front();
  EXPECT_EQ(found.good_steps, 7);
  EXPECT_EQ(found.step, 3);
  EXPECT_EQ(found.updates, 2);
  EXPECT_EQ(found.loss_scale, 8);
  return found;
}

TEST_F(StepControlOnDeviceTest, ClipsAsTheCpu) {
  for (const std::size_t count : {1, 5, 1023, 1024, 1025, 2048, 10901}) {
    const auto measured = measures(count, static_cast<unsigned>(count));
    for (const double clip_norm : {1e-3, 0.7, 1e9}) {
      const auto found = decided({.measured = measured, .clip_norm = clip_norm});
      EXPECT_TRUE(same_bits(found.clip, clip_factor(clip_norm, measured)))
          << count << ": " << found.clip << ", expected " << clip_factor(clip_norm, measured);
      EXPECT_EQ(found.skipped, 0);
    }
  }
}

TEST_F(StepControlOnDeviceTest, ClipsNormsThatAreNotFiniteAsTheCpu) {
  auto measured = measures(100, 1);
  measured[50].squares = std::numeric_limits<double>::infinity();
  EXPECT_EQ(decided({.measured = measured, .clip_norm = 1}).clip, 0);
  measured[50].squares = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(decided({.measured = measured, .clip_norm = 1}).clip, 1);
}

TEST_F(StepControlOnDeviceTest, SkipsWhereSomethingIsNotFinite) {
  auto measured = measures(3000, 1);
  EXPECT_EQ(decided({.measured = measured, .has_loss_scaling = true}).skipped, 0);
  EXPECT_EQ(decided({.measured = measured, .has_loss_scaling = true}).clip, 1);
  for (const float loss : {kInfinity, -kInfinity, kNan}) {
    const Findings findings{.measured = measured, .losses = {1, 2, loss}, .has_loss_scaling = true};
    EXPECT_EQ(decided(findings).skipped, 1) << loss;
  }
  measured[2999].not_finite = 2;
  EXPECT_EQ(decided({.measured = measured, .has_loss_scaling = true}).skipped, 1);
  EXPECT_EQ(decided({.measured = measured, .clip_norm = 1}).skipped, 0);
}

/// The loss scale, written independently of `optimizer::StepRules`.
struct Progress {
  std::int64_t good_steps = 0;
  double loss_scale = 1;

  void add(bool skipped, std::int64_t steps_to_grow, double largest) {
    good_steps = skipped ? 0 : good_steps + 1;
    if (skipped) {
      loss_scale = std::max(1.0, loss_scale / 2);
    } else if (good_steps % steps_to_grow == 0) {
      loss_scale = std::min(largest, loss_scale * 2);
    }
  }
};

TEST_F(StepControlOnDeviceTest, ScalesLossesAsTheCpu) {
  const std::vector<bool> skips{true,  true,  true,  false, false, false, true,  false,
                                false, false, false, false, false, false, false, false};
  const OnDevice<StepControl> control(std::vector<StepControl>{{.loss_scale = 4}});
  Progress expected{.loss_scale = 4};
  for (const bool skipped : skips) {
    auto now = control.values();
    now[0].skipped = skipped ? 1 : 0;
    copy_to_device(now.data(), control.data(), sizeof(StepControl), nullptr);
    end_step({.rules = {.has_loss_scaling = true, .steps_to_grow = 2, .largest_scale = 16}},
             control.data(), nullptr);
    expected.add(skipped, 2, 16);
    EXPECT_EQ(control.values()[0].loss_scale, expected.loss_scale);
    EXPECT_EQ(control.values()[0].good_steps, expected.good_steps);
  }
  EXPECT_EQ(control.values()[0].loss_scale, 16);
  EXPECT_EQ(control.values()[0].step, 16);
  EXPECT_EQ(control.values()[0].updates, 12);
}

TEST_F(StepControlOnDeviceTest, CountsUpdatesOfWhatChanged) {
  std::vector<float> changed(1000, 1);
  std::vector<std::int64_t> counts(1000);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    changed[i] = i % 3 == 0 ? 0 : 2;
    counts[i] = static_cast<std::int64_t>(i) << 33;
  }
  const OnDevice<float> changed_there(changed);
  const OnDevice<std::int64_t> counts_there(counts);
  const OnDevice<StepControl> control(std::vector<StepControl>(1));
  const OnDevice<StepControl> records(std::vector<StepControl>(2));
  const EndStepCall call{.changed = changed_there.data(),
                         .counts = counts_there.data(),
                         .num_parameters = 1000,
                         .records = records.data()};
  end_step(call, control.data(), nullptr);
  auto skipped = control.values();
  skipped[0].skipped = 1;
  copy_to_device(skipped.data(), control.data(), sizeof(StepControl), nullptr);
  end_step(call, control.data(), nullptr);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += i % 3 == 0 ? 0 : 1;
  EXPECT_EQ(counts_there.values(), counts);
  EXPECT_EQ(records.values()[0].skipped, 0);
  EXPECT_EQ(records.values()[1].skipped, 1);
  EXPECT_EQ(records.values()[1].step, 1);
  EXPECT_EQ(control.values()[0].updates, 1);
  EXPECT_EQ(control.values()[0].loss_scale, 1) << "without loss scaling it stays";

  begin_launch(control.data(), nullptr);
  EXPECT_EQ(control.values()[0].step, 0);
  EXPECT_EQ(control.values()[0].updates, 0);
  EXPECT_EQ(control.values()[0].skipped, 1) << "the step's own to say";
}

}  // namespace
}  // namespace lockstep::gpu
