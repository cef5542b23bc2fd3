#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "lockstep/gpu/stream.h"

namespace lockstep::gpu {

/// Where memory is.
enum class Space {
  Device,  ///< of the current GPU; whoever frees it waits for the GPU
  Pinned,  ///< of the host, which a GPU reads and writes by itself, without a copy on the way
};

/// Bytes of a space, unset. Errors: `Unavailable` where there are not so many.
template <Space space>
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  template <typename T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

template <>
Memory<Space::Device>::Memory(std::size_t bytes);
template <>
Memory<Space::Device>::~Memory();
template <>
Memory<Space::Pinned>::Memory(std::size_t bytes);
template <>
Memory<Space::Pinned>::~Memory();

using DeviceMemory = Memory<Space::Device>;
using PinnedMemory = Memory<Space::Pinned>;

/// Memory of the host that is somebody else's, as one that instances share, pinned while this
/// lives. Where the system does not allow that, copies are slower and wait for each other.
class PinnedRange {
 public:
  PinnedRange() = default;
  explicit PinnedRange(std::span<std::byte> memory) noexcept;
  PinnedRange(PinnedRange&& other) noexcept : begin_(std::exchange(other.begin_, nullptr)) {}
  PinnedRange& operator=(PinnedRange&& other) noexcept {
    std::swap(begin_, other.begin_);
    return *this;
  }
  ~PinnedRange();

 private:
  void* begin_ = nullptr;
};

/// Copies in the order of the stream. Memory of the host that is not pinned is read before it
/// returns, and written only when the stream has come there.
void copy_to_device(const void* host, void* device, std::size_t bytes, Stream stream);
void copy_to_host(const void* device, void* host, std::size_t bytes, Stream stream);
void copy_on_device(const void* from, void* to, std::size_t bytes, Stream stream);
/// Waits until all that the stream was given is done.
void wait_for(Stream stream);

}  // namespace lockstep::gpu
