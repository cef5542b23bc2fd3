#include <zlib.h>

#include <vector>

#include "lockstep/weights/digest.h"
#include "lockstep/weights/state_dict.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

std::size_t number(const std::vector<std::uint8_t>& file, std::size_t at, std::size_t bytes) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::size_t{file[at + i]} << (8 * i);
  return value;
}

/// Puts the right checksums into the directory of a zip file, so that what is behind them is
/// reached.
std::vector<std::uint8_t> repaired(lockstep::data::Bytes bytes) {
  std::vector<std::uint8_t> file(bytes.begin(), bytes.end());
  constexpr std::size_t kCentral = 46;
  for (std::size_t at = 0; at + kCentral < file.size(); ++at) {
    if (number(file, at, 4) != 0x02014b50) continue;
    const auto size = number(file, at + 24, 4);
    const auto local = number(file, at + 42, 4);
    if (local > file.size() || file.size() - local < 30) continue;
    const auto begin = local + 30 + number(file, local + 26, 2) + number(file, local + 28, 2);
    if (begin > file.size() || size > file.size() - begin) continue;
    const auto crc = ::crc32_z(0, file.data() + begin, size);
    for (std::size_t i = 0; i < 4; ++i) file[at + 16 + i] = static_cast<std::uint8_t>(crc >> 8 * i);
  }
  return file;
}

}  // namespace

LOCKSTEP_FUZZ_TARGET(file) {
  const auto content = repaired(file);
  // The digest touches every byte that a tensor refers to.
  lockstep::weights::digest_of(
      lockstep::weights::read_state_dict(std::as_bytes(std::span(content)), "fuzz"));
}
