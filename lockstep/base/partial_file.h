#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "lockstep/base/file.h"

namespace lockstep {

/// A new file beside the one that it will replace. Whoever looks sees the old file or the whole new
/// one; what was not published is gone with this object.
///
/// It gets the permissions of the file that it replaces, or those that the umask leaves to a new
/// one. Of a symbolic link, what it points to is replaced.
///
/// Errors: `Io`, naming the file, as where the disk is full; `Options` where the target is no plain
/// file.
class PartialFile {
 public:
  explicit PartialFile(std::filesystem::path target);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  int fd() const { return file_.get(); }
  const std::string& path() const { return path_; }

  /// Writes at the current offset, all of it.
  void append(std::span<const std::byte> bytes);

  /// Makes it the target, which is complete on disk before it has its name. That name is on disk
  /// too when this returns, where the file system can promise it.
  void publish();

 private:
  std::filesystem::path target_;
  std::string path_;
  UniqueFd file_;
};

}  // namespace lockstep
