#pragma once

#include <string>
#include <string_view>

namespace lockstep::testing {

/// A new empty folder that is gone, with all that is in it, at the end of the test.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

  /// Writes a file into it and returns its path.
  std::string write(const std::string& name, std::string_view content, unsigned mode = 0644) const;

  bool is_empty() const;

 private:
  std::string path_;
};

}  // namespace lockstep::testing
