#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/partial_file.h"

namespace lockstep::weights {

/// Writes a zip file of stored entries, each of which begins at a multiple of 64 bytes, as PyTorch
/// does: whoever maps the file can use its tensors where they are. That is why this is not
/// libarchive's writer, which cannot align. Entries and files beyond 4 GiB get 64-bit records.
class ZipWriter {
 public:
  /// Where 64-bit records are used: where they have to be, or everywhere, to test them without
  /// gigabytes.
  enum class Records64 : std::uint8_t { WhereNeeded, Everywhere };

  explicit ZipWriter(PartialFile& file, Records64 records = Records64::WhereNeeded)
      : file_(file), records_(records) {}

  void add(std::string_view name, std::span<const std::byte> content);

  /// Writes the directory. No entry can follow it.
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t size;
    std::uint64_t header_at;
    std::uint32_t crc;
  };

  bool needs_64(std::uint64_t number) const;
  std::string local_header(const Entry& entry) const;
  std::string central_header(const Entry& entry) const;
  void append(std::string_view text);

  PartialFile& file_;
  Records64 records_;
  std::uint64_t offset_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace lockstep::weights
