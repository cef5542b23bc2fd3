#pragma once

#include <cstddef>
#include <memory>

namespace lockstep::train {

/// Memory for a copy of a training's state. It is used again for the next copy, since new memory
/// takes long to come from the system.
class Snapshot {
 public:
  /// Forgets what is in it, and has room for so many bytes then.
  void clear(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      bytes_ = bytes;
    }
    used_ = 0;
  }

  /// The next bytes, at the beginning of a line of the cache.
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
