#include "lockstep/gpu/update/changed_tensors.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/gpu/numbers.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

TEST(ChangedTensorsTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_THROW(mark_changed(nullptr, nullptr, 0, {}, nullptr, nullptr), Error);
}

using ChangedTensorsOnDeviceTest = DeviceTest;

TEST_F(ChangedTensorsOnDeviceTest, MarksThoseInWhichABitIsAnother) {
  constexpr std::int64_t kFirst = 16;  // what stands before is no part of `now`
  const std::vector<Extent> tensors{{16, 1}, {32, 4096}, {4128, 10007}, {14144, 15}, {14160, 300}};
  auto before = plain_floats(14460, 1);
  before[14150] = 0;
  Floats now(before.begin() + kFirst, before.end());
  now[4128 - kFirst + 10006] += 1;  // the last of the third
  now[14150 - kFirst] = -0.0F;      // equal, but for a bit
  now[14159 - kFirst] += 1;         // behind the fourth: what aligns the next belongs to none

  const auto table = cut_into_chunks(tensors);
  const OnDevice<Chunk> chunks(table);
  const OnDevice<float> before_there(before);
  const OnDevice<float> now_there(now);
  const OnDevice<float> changed(Floats{0, 1, 0, 0, 0});
  mark_changed(before_there.data(), now_there.data(), kFirst,
               {chunks.data(), static_cast<std::int32_t>(table.size())}, changed.data(), nullptr);
  EXPECT_EQ(changed.values(), (Floats{0, 1, 1, 1, 0})) << "what was marked before stays so";
}

}  // namespace
}  // namespace lockstep::gpu
