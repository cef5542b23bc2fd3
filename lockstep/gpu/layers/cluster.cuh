#pragma once

#include <cstdint>

namespace lockstep::gpu {

// Blocks of a cluster, which run side by side and reach each other's shared memory (Hopper and
// later). Every thread of every block arrives, and waits, equally often.

__device__ inline void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

/// What others wrote before they arrived is seen from here on.
__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/// Writes to where `shared` lies in the memory of another block, which has to be running.
__device__ inline void write_to_block(int rank, float value, float* shared) {
  const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  std::uint32_t there = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
}

}  // namespace lockstep::gpu
