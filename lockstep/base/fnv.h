#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// FNV-1a: a hash that is the same number in every process and build. Not for secrets.
class Fnv {
 public:
  constexpr Fnv& add(std::uint64_t value) noexcept {
    hash_ = (hash_ ^ value) * 0x100000001b3U;
    return *this;
  }
  constexpr Fnv& add(std::string_view text) noexcept {
    for (const char character : text) add(static_cast<unsigned char>(character));
    return *this;
  }
  constexpr std::uint64_t value() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

}  // namespace lockstep
