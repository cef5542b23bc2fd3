#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/field.h"

/// The pack file, from its first byte to its last. All numbers are little-endian.
///
///     preamble   where the rest is, with a checksum over itself
///     records    one per sample, from byte 4096 on: its fields in order, each padded to 8 bytes
///     blocks     a checksum for each 256 KiB of records
///     index      only where records differ in size: where each begins, and the end of the last
///     footer     JSON: what the set is, where the tables are, and their checksums
///
/// A field of a record is
///     fixed            its bytes
///     varying          its length as i64, then its bytes
///     picture          height and width as u32, then its pixels
///     stored picture   the number of bytes as u64, then the file as it was (JPEG, PNG)
///
/// Checksums are XXH3 of 64 bits. Preamble, footer and tables are checked when a pack is opened, a
/// block of records when something in it is first read.
namespace lockstep::data {

inline constexpr std::array<char, 8> kPackMagic{'L', 'O', 'C', 'K', 'P', 'A', 'C', 'K'};
inline constexpr std::uint32_t kPackVersion = 1;
inline constexpr std::uint32_t kPackByteOrder = 0x01020304;
inline constexpr std::size_t kPackRecordsOffset = 4096;
inline constexpr std::size_t kPackBlockBytes = std::size_t{256} << 10;
inline constexpr std::size_t kPackAlignment = 8;

struct PackPreamble {
  std::array<char, 8> magic = kPackMagic;
  std::uint32_t version = kPackVersion;
  std::uint32_t byte_order = kPackByteOrder;
  std::uint64_t file_bytes = 0;
  std::uint64_t records_bytes = 0;
  std::uint64_t footer_offset = 0;
  std::uint64_t footer_bytes = 0;
  std::uint64_t footer_checksum = 0;
  std::uint64_t checksum = 0;  ///< of all before it
};
static_assert(sizeof(PackPreamble) == 64);

/// A table of 64-bit numbers within the file.
struct PackTable {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  std::uint64_t checksum = 0;
};

/// What the footer says.
struct PackFooter {
  std::string name;
  std::vector<Field> fields;
  std::vector<std::string> class_names;
  std::int64_t samples = 0;
  std::uint64_t record_bytes = 0;      ///< 0: they differ, and there is an index
  bool stores_files = false;           ///< pictures are the files that they were, not pixels
  bool is_verified = false;            ///< the originals had their published checksums
  std::vector<std::string> differing;  ///< originals that are known and had another checksum
  std::string fingerprint;             ///< of the originals: their names, sizes and times of change
  PackTable blocks;
  PackTable index;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept;
/// The checksum that a preamble should have.
std::uint64_t checksum_of(const PackPreamble& preamble) noexcept;

std::string to_json(const PackFooter& footer);
/// Throws `Data`, beginning with `where`, for text that is no footer or contradicts itself.
PackFooter parse_footer(const std::string& where, const std::string& json);

constexpr std::size_t padded(std::size_t bytes) noexcept {
  return (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

/// Bytes of each record, where they are all the same; else 0.
std::uint64_t fixed_record_bytes(const std::vector<Field>& fields) noexcept;

}  // namespace lockstep::data
