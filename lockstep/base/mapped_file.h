#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "lockstep/base/export.h"

namespace lockstep {

/// A file as read-only memory, shared with every process of the host that maps it.
class LOCKSTEP_PRIVATE_API MappedFile {
 public:
  MappedFile() = default;
  /// Throws `Io`, naming the file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep
