#include "lockstep/monitor/export/crc32c.h"

#include <array>
#include <bit>

namespace lockstep::monitor {
namespace {

/// What each value of a byte does to the checksum. A table of one byte is fast enough: an event is
/// a hundred bytes, and one is written per step.
constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kReversedPolynomial : 0);
    }
    table[byte] = value;
  }
  return table;
}

constexpr auto kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t value = ~0U;
  for (const char byte : bytes) {
    value = kTable[(value ^ static_cast<unsigned char>(byte)) & 0xff] ^ (value >> 8);
  }
  return ~value;
}

std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

}  // namespace lockstep::monitor
