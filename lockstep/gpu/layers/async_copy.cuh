#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace lockstep::gpu {

// Copies from memory to shared memory that pass no register. A thread sees its own after its wait.

/// Copies 16 bytes, or writes zeros and reads nothing.
__device__ inline void copy_async(const void* from, bool is_there, uint4* shared) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint32_t bytes = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace lockstep::gpu
