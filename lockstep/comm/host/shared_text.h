#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lockstep::comm::host {

/// A short text in shared memory that its owner may replace while others read it. A reader may see
/// a mixture of two, which is good enough for a message. Zeroed memory is the empty text.
class SharedText {
 public:
  static constexpr std::size_t kCapacity = 64;

  void store(std::string_view text) noexcept {
    std::array<std::uint64_t, kWords> words{};
    std::memcpy(words.data(), text.data(), std::min(text.size(), kCapacity));
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }

  std::string load() const {
    std::array<char, kCapacity> text;
    for (std::size_t i = 0; i < kWords; ++i) {
      const auto word = words_[i].load(std::memory_order_relaxed);
      std::memcpy(text.data() + i * sizeof(word), &word, sizeof(word));
    }
    return {text.begin(), std::find(text.begin(), text.end(), '\0')};
  }

 private:
  static constexpr std::size_t kWords = kCapacity / sizeof(std::uint64_t);
  std::array<std::atomic<std::uint64_t>, kWords> words_;
};

}  // namespace lockstep::comm::host
