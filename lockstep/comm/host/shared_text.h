#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::comm::host {

/// A short text in shared memory that its owner may replace while others read it. A reader may see
/// a mixture of two, which is good enough for a message. Zeroed memory is the empty text.
class SharedText {
 public:
  static constexpr std::size_t kCapacity = 64;

  void store(std::string_view text) noexcept {
    std::array<char, kCapacity> padded{};
    text.copy(padded.data(), kCapacity);
    const auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(padded);
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }

  std::string load() const {
    std::array<std::uint64_t, kWords> words;
    for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    const auto text = std::bit_cast<std::array<char, kCapacity>>(words);
    return {text.begin(), std::find(text.begin(), text.end(), '\0')};
  }

 private:
  static constexpr std::size_t kWords = kCapacity / sizeof(std::uint64_t);
  std::array<std::atomic<std::uint64_t>, kWords> words_;
};

}  // namespace lockstep::comm::host
