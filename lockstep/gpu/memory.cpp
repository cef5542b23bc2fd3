#include "lockstep/gpu/memory.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdint>

#include "lockstep/gpu/check.h"

namespace lockstep::gpu {

template <>
Memory<Space::Device>::Memory(std::size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  if (bytes > 0) check(cudaMalloc(&data, bytes), "cudaMalloc");
  data_ = static_cast<std::byte*>(data);
}

template <>
Memory<Space::Device>::~Memory() {
  (void)cudaFree(data_);
}

template <>
Memory<Space::Pinned>::Memory(std::size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  if (bytes > 0) check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  data_ = static_cast<std::byte*>(data);
}

template <>
Memory<Space::Pinned>::~Memory() {
  (void)cudaFreeHost(data_);
}

/// All of the pages that it touches.
PinnedRange::PinnedRange(std::span<std::byte> memory) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data() + memory.size());
  const auto bytes = (end - begin + page - 1) / page * page;
  auto* const first = reinterpret_cast<void*>(begin);
  if (cudaHostRegister(first, bytes, cudaHostRegisterPortable) == cudaSuccess) {
    begin_ = first;
  } else {
    (void)cudaGetLastError();  // nobody else is to hear of it
  }
}

PinnedRange::~PinnedRange() {
  if (begin_ != nullptr) (void)cudaHostUnregister(begin_);
}

void copy_to_device(const void* host, void* device, std::size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), "copy to the GPU");
}

void copy_to_host(const void* device, void* host, std::size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream), "copy from the GPU");
}

void copy_on_device(const void* from, void* to, std::size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copy on the GPU");
}

void wait_for(Stream stream) {
  check(cudaStreamSynchronize(stream), "waiting for the GPU");
}

}  // namespace lockstep::gpu
