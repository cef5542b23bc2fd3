#pragma once

#include <cstddef>
#include <memory>

namespace lockstep::train {

/// Memory for a copy of the state of a training. The next copy reuses it, because the allocation of
/// new memory is slow.
class CheckpointMemory {
 public:
  /// Discards the content, and makes room for this number of bytes.
  void clear(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      bytes_ = bytes;
    }
    used_ = 0;
  }

  /// Returns the next bytes, at a multiple of 64 bytes from the beginning of the memory.
  std::byte* take(std::size_t bytes) noexcept {
    auto* const taken = memory_.get() + used_;
    used_ += whole_lines(bytes);
    return taken;
  }

  static constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
    constexpr std::size_t kLine = 64;
    return (bytes + kLine - 1) / kLine * kLine;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;
};

}  // namespace lockstep::train
