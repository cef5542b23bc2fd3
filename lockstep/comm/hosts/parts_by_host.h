#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "lockstep/comm/hosts/host_layout.h"

namespace lockstep::comm::hosts {

/// A part of each rank's block, side by side host by host, so that those of one host travel as
/// one. Where there is no memory, there is nothing to look at.
class PartsByHost {
 public:
  PartsByHost(const HostLayout& layout, std::byte* data, std::size_t bytes)
      : layout_(layout), data_(data), bytes_(bytes) {}

  std::span<std::byte> all() const { return {data_, layout_.size() * bytes_}; }

  std::span<std::byte> of_host(int host) const {
    const auto index = static_cast<std::size_t>(host);
    if (data_ == nullptr) return {};
    return all().subspan(layout_.first_blocks[index] * bytes_,
                         layout_.ranks[index].size() * bytes_);
  }

  /// From blocks by rank, each `stride` bytes behind the one before it.
  void pack(const std::byte* blocks, std::size_t stride) const {
    for_ranks([&](std::byte* part, std::size_t rank) {
      std::memcpy(part, blocks + rank * stride, bytes_);
    });
  }
  void unpack(std::byte* blocks, std::size_t stride) const {
    for_ranks([&](const std::byte* part, std::size_t rank) {
      std::memcpy(blocks + rank * stride, part, bytes_);
    });
  }

 private:
  template <typename Function>
  void for_ranks(Function function) const {
    auto* next = data_;
    for (const auto& ranks : layout_.ranks) {
      for (const int rank : ranks) {
        function(next, static_cast<std::size_t>(rank));
        next += bytes_;
      }
    }
  }

  const HostLayout& layout_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace lockstep::comm::hosts
