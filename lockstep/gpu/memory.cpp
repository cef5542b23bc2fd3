#include "lockstep/gpu/memory.h"

#include <cuda_runtime_api.h>

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

void copy_to_device(const void* host, void* device, std::size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), "copy to the GPU");
}

void copy_to_host(const void* device, void* host, std::size_t bytes, Stream stream) {
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream), "copy from the GPU");
}

void wait_for(Stream stream) {
  check(cudaStreamSynchronize(stream), "waiting for the GPU");
}

}  // namespace lockstep::gpu
