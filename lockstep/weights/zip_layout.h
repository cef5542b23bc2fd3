#pragma once

#include <cstddef>
#include <cstdint>

/// What the reader and the writer of zip files agree on: PKWARE's APPNOTE.TXT, 4.3. All numbers are
/// little-endian.
namespace lockstep::weights::zip {

inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kCentralSignature = 0x02014b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kEnd64Signature = 0x06064b50;
inline constexpr std::uint32_t kLocator64Signature = 0x07064b50;

// Without the name and what follows it.
inline constexpr std::size_t kLocalBytes = 30;
inline constexpr std::size_t kCentralBytes = 46;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::size_t kEnd64Bytes = 56;
inline constexpr std::size_t kLocator64Bytes = 20;

/// In place of a number that does not fit: it stands in the extra field of this kind.
inline constexpr std::uint32_t kSeeExtra32 = 0xffffffff;
inline constexpr std::uint16_t kSeeExtra16 = 0xffff;
inline constexpr std::uint16_t kExtra64 = 1;
/// PyTorch's own kind, "FB": nothing but padding.
inline constexpr std::uint16_t kExtraPadding = 0x4246;

inline constexpr std::uint16_t kEncrypted = 1;
inline constexpr std::uint16_t kUtf8Name = 1 << 11;
inline constexpr std::uint16_t kStored = 0;

}  // namespace lockstep::weights::zip
