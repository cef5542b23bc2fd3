#pragma once

#include <filesystem>

namespace lockstep::cli {

/// A new empty folder that is gone, with all that is in it, when a benchmark ends.
/// Throws `Io` where it cannot be made.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::cli
