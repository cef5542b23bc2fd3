#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "lockstep/comm/buffer.h"

namespace lockstep::comm::hosts {

/// The elements of several buffers of one type, one after another.
class ElementRow {
 public:
  explicit ElementRow(DataType type) : type_(type) {}

  void add(const Buffer& buffer) {
    if (buffer.count == 0) return;
    parts_.push_back(
        {static_cast<std::byte*>(buffer.data), count_, static_cast<std::size_t>(buffer.count)});
    count_ += static_cast<std::size_t>(buffer.count);
  }

  DataType type() const noexcept { return type_; }
  std::size_t count() const noexcept { return count_; }
  bool is_one_buffer() const noexcept { return parts_.size() <= 1; }

  /// Where these elements lie side by side; nothing where they are in several buffers.
  std::byte* find(std::size_t begin, std::size_t count) const noexcept {
    const auto after = std::ranges::upper_bound(parts_, begin, {}, &Part::first);
    if (after == parts_.begin()) return nullptr;
    const auto& part = *std::prev(after);
    if (begin + count > part.first + part.count) return nullptr;
    return part.data + (begin - part.first) * size_of(type_);
  }

  void copy_to(std::byte* room, std::size_t begin, std::size_t count) const {
    for_parts(begin, count, [&](std::byte* elements, std::size_t offset, std::size_t bytes) {
      std::memcpy(room + offset, elements, bytes);
    });
  }
  void copy_from(const std::byte* room, std::size_t begin, std::size_t count) const {
    for_parts(begin, count, [&](std::byte* elements, std::size_t offset, std::size_t bytes) {
      std::memcpy(elements, room + offset, bytes);
    });
  }

 private:
  struct Part {
    std::byte* data;
    std::size_t first;
    std::size_t count;
  };

  template <typename Function>
  void for_parts(std::size_t begin, std::size_t count, Function function) const {
    for (const auto& part : parts_) {
      const auto first = std::max(begin, part.first);
      const auto last = std::min(begin + count, part.first + part.count);
      if (first >= last) continue;
      function(part.data + (first - part.first) * size_of(type_), (first - begin) * size_of(type_),
               (last - first) * size_of(type_));
    }
  }

  DataType type_;
  std::vector<Part> parts_;
  std::size_t count_ = 0;
};

}  // namespace lockstep::comm::hosts
