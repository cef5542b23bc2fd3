#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/gpu/memory.h"

namespace lockstep::train {

/// Entries in the memory of a GPU, and a copy on the host from which they are sent.
template <typename Entry>
class DeviceTable {
 public:
  DeviceTable() = default;
  explicit DeviceTable(std::size_t count)
      : count_(count), device_(count * sizeof(Entry)), host_(count * sizeof(Entry)) {}

  std::size_t size() const noexcept { return count_; }
  Entry* data() const noexcept { return device_.as<Entry>(); }
  /// The entries that the next `send` sends. Do not write them during a transfer.
  std::span<Entry> entries() const noexcept { return {host_.as<Entry>(), count_}; }

  void send(gpu::Stream stream) const { send_first(count_, stream); }
  void send_first(std::size_t count, gpu::Stream stream) const {
    gpu::copy_to_device(host_.data(), device_.data(), count * sizeof(Entry), stream);
  }
  void send_part(std::size_t first, std::size_t count, gpu::Stream stream) const {
    gpu::copy_to_device(host_.as<Entry>() + first, data() + first, count * sizeof(Entry), stream);
  }
  /// Copies into `entries`, when the stream reaches this point.
  void fetch_first(std::size_t count, gpu::Stream stream) const {
    gpu::copy_to_host(device_.data(), host_.data(), count * sizeof(Entry), stream);
  }

 private:
  std::size_t count_ = 0;
  gpu::DeviceMemory device_;
  gpu::PinnedMemory host_;
};

}  // namespace lockstep::train
