#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::monitor {

/// The CRC-32 of Castagnoli's polynomial, as iSCSI has it. "123456789" gives 0xe3069283.
std::uint32_t crc32c(std::string_view bytes) noexcept;

/// The checksum as records of TensorFlow hold it: turned and shifted, because a checksum over bytes
/// that hold checksums themselves would be weak.
std::uint32_t masked_crc32c(std::string_view bytes) noexcept;

}  // namespace lockstep::monitor
