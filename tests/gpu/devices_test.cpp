#include "lockstep/gpu/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/gpu/memory.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

TEST(DevicesTest, RefusesADeviceThatIsNotThere) {
  try {
    use_device(1000);
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unavailable);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("GPU"));
  }
}

TEST(DevicesTest, HasNoDevicesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_EQ(count_devices(), 0);
  EXPECT_THROW(DeviceMemory(1), Error);
  EXPECT_THROW(PinnedMemory(1), Error);
}

using DevicesOnDeviceTest = DeviceTest;

TEST_F(DevicesOnDeviceTest, DescribesTheFirstDevice) {
  const auto info = describe_device(0);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_LE(info.free_bytes, info.memory_bytes);
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_GE(info.compute_major, 7);
}

TEST_F(DevicesOnDeviceTest, CopiesThereAndBack) {
  const std::vector<int> values{3, 1, 4, 1, 5};
  EXPECT_EQ(OnDevice<int>(values).values(), values);
}

TEST_F(DevicesOnDeviceTest, SaysHowMuchMemoryWasMissing) {
  try {
    const DeviceMemory memory(std::size_t{1} << 50);
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unavailable);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("out of memory"));
  }
}

}  // namespace
}  // namespace lockstep::gpu
