#pragma once

#include <vector>

#include "lockstep/gpu/memory.h"

namespace lockstep::gpu {

/// The same values in the current GPU's memory, there when it returns.
template <typename T>
DeviceMemory on_device(const std::vector<T>& values) {
  DeviceMemory memory(values.size() * sizeof(T));
  if (values.empty()) return memory;
  copy_to_device(values.data(), memory.data(), memory.bytes(), nullptr);
  wait_for(nullptr);
  return memory;
}

}  // namespace lockstep::gpu
