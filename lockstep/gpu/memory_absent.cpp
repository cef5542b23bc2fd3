#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/memory.h"

namespace lockstep::gpu {

template <>
Memory<Space::Device>::Memory(std::size_t) {
  refuse_without_cuda("memory of a GPU");
}

template <>
Memory<Space::Device>::~Memory() {}

template <>
Memory<Space::Pinned>::Memory(std::size_t) {
  refuse_without_cuda("pinned memory");
}

template <>
Memory<Space::Pinned>::~Memory() {}

PinnedRange::PinnedRange(std::span<std::byte>) noexcept {}
PinnedRange::~PinnedRange() {}

void copy_to_device(const void*, void*, std::size_t, Stream) {
  refuse_without_cuda("copy to a GPU");
}

void copy_to_host(const void*, void*, std::size_t, Stream) {
  refuse_without_cuda("copy from a GPU");
}

void copy_on_device(const void*, void*, std::size_t, Stream) {
  refuse_without_cuda("copy on a GPU");
}

void wait_for(Stream) {
  refuse_without_cuda("waiting for a GPU");
}

}  // namespace lockstep::gpu
