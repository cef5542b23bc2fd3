#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lockstep/gpu/devices.h"
#include "lockstep/gpu/memory.h"

namespace lockstep::gpu {

/// A test that needs a GPU, and says so where there is none.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (count_devices() == 0) GTEST_SKIP() << "there is no GPU here";
  }
};

/// Numbers on the GPU, for a test: what is not written is 0xCD in each byte.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : OnDevice(std::vector<T>(count, poison())) {}
  explicit OnDevice(const std::vector<T>& values)
      : count_(values.size()), memory_(values.size() * sizeof(T)) {
    copy_to_device(values.data(), memory_.data(), memory_.bytes(), nullptr);
    wait_for(nullptr);
  }

  T* data() const { return memory_.as<T>(); }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    wait_for(nullptr);
    copy_to_host(memory_.data(), values.data(), memory_.bytes(), nullptr);
    wait_for(nullptr);
    return values;
  }

 private:
  static T poison() {
    T value;
    std::memset(static_cast<void*>(&value), 0xCD, sizeof(T));
    return value;
  }

  std::size_t count_;
  DeviceMemory memory_;
};

}  // namespace lockstep::gpu
