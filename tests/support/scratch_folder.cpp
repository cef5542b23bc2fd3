#include "tests/support/scratch_folder.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <stdexcept>

#include "lockstep/base/file.h"

namespace lockstep::testing {

ScratchFolder::ScratchFolder() : path_("/tmp/lockstep-test-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::write(const std::string& name, std::string_view content,
                                 unsigned mode) const {
  const auto file = path_ + "/" + name;
  write_file(file, content);
  ::chmod(file.c_str(), mode);
  return file;
}

bool ScratchFolder::is_empty() const {
  return std::filesystem::is_empty(path_);
}

}  // namespace lockstep::testing
