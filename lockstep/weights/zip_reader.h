#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/data/formats/bytes.h"

namespace lockstep::weights {

/// Whether a file begins as zip files do.
bool is_zip(data::Bytes file) noexcept;

/// A zip file in memory whose entries are stored as they are, as PyTorch writes it.
///
/// Not libarchive: it would copy every byte once more, and a weight file is as large as the model.
/// An entry here is a part of the mapped file, and costs its CRC-32 and nothing else. Packed and
/// encrypted entries are refused when they are read.
///
/// Errors: `Data`, which `where` begins.
class ZipReader {
 public:
  ZipReader(data::Bytes file, std::string_view where);

  /// The folder that all entries are in, with its slash: "archive/".
  const std::string& folder() const noexcept { return folder_; }

  /// Whether there is an entry of that name below the folder, or one that begins with it.
  bool has(std::string_view name) const;
  bool has_folder(std::string_view prefix) const;

  /// The content of an entry of that name below the folder, checked against its checksum.
  data::Bytes read(std::string_view name) const;

 private:
  struct Entry {
    std::uint64_t size = 0;
    std::uint64_t header_at = 0;
    std::uint32_t crc = 0;
    std::uint16_t flags = 0;
    std::uint16_t method = 0;
  };
  struct Directory {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::uint64_t entries = 0;
  };

  Directory find_directory() const;
  Directory find_directory64(std::size_t end_at) const;
  void read_directory(const Directory& directory);
  void add_entry(std::size_t at, std::string_view name, data::Bytes extra);
  void check_readable(const std::string& name, const Entry& entry) const;
  data::Bytes content_of(const std::string& name, const Entry& entry) const;
  std::uint64_t number(std::size_t at, std::size_t bytes) const;

  data::Bytes file_;
  std::string where_;
  std::string folder_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace lockstep::weights
