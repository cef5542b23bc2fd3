#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/buffer.h"
#include "lockstep/comm/host/job_memory.h"

namespace lockstep::comm::host {

/// A part of a range.
struct Slice {
  std::size_t begin;
  std::size_t end;
};

/// Part `index` of `parts` nearly equal ones of [begin, end), cut at multiples of `alignment`
/// from `begin`.
inline Slice slice_of(Slice whole, int index, int parts, std::size_t alignment) noexcept {
  const auto length = whole.end - whole.begin;
  const auto step = round_up(
      (length + static_cast<std::size_t>(parts) - 1) / static_cast<std::size_t>(parts), alignment);
  const auto begin = std::min(length, static_cast<std::size_t>(index) * step);
  return {whole.begin + begin, whole.begin + std::min(length, begin + step)};
}

/// A row of a buffer's elements, and where it lies among all that are packed.
struct Run {
  std::byte* data;
  std::size_t count;
  DataType type;
  std::size_t offset;

  std::size_t bytes() const noexcept { return count * size_of(type); }
};

/// Many buffers seen as one range of bytes, so that they can be cut into chunks and slices alike.
/// Each begins at a multiple of `kAlignment`, as all cuts do: no element is ever cut in two.
class PackedBuffers {
 public:
  static constexpr std::size_t kAlignment = 64;

  explicit PackedBuffers(std::span<const Buffer> buffers) : buffers_(buffers) {
    for (const auto& buffer : buffers) {
      offsets_.push_back(bytes_);
      bytes_ += round_up(bytes_of(buffer), kAlignment);
    }
  }

  std::size_t bytes() const noexcept { return bytes_; }

  /// Calls `function(run)` for what lies in a part, whose borders are multiples of `kAlignment`.
  template <typename Function>
  void for_runs(Slice part, Function function) const {
    const auto [begin, end] = part;
    if (begin >= end) return;
    const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), begin);
    for (auto i = static_cast<std::size_t>(after - offsets_.begin()) - 1;
         i < buffers_.size() && offsets_[i] < end; ++i) {
      const auto& buffer = buffers_[i];
      const auto first = std::max(begin, offsets_[i]);
      const auto last = std::min(end, offsets_[i] + bytes_of(buffer));
      if (first >= last) continue;
      function(Run{static_cast<std::byte*>(buffer.data) + (first - offsets_[i]),
                   (last - first) / size_of(buffer.type), buffer.type, first});
    }
  }

  /// The same for what lies in `whole` but not in `hole`.
  template <typename Function>
  void for_runs_outside(Slice whole, Slice hole, Function function) const {
    for_runs({whole.begin, hole.begin}, function);
    for_runs({hole.end, whole.end}, function);
  }

 private:
  std::span<const Buffer> buffers_;
  std::vector<std::size_t> offsets_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::comm::host
