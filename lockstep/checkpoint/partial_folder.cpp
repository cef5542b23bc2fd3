#include "lockstep/checkpoint/partial_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/folder_name.h"

namespace lockstep::checkpoint {

PartialFolder::PartialFolder(const std::filesystem::path& parent, std::string_view name) {
  constexpr mode_t kFolderMode = 0777;
  do {
    path_ = parent / partial_name(name);
    if (::mkdir(path_.c_str(), kFolderMode) == 0) return;
  } while (errno == EEXIST);
  throw io_error(path_.string());
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;  // the next process removes what is left
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void PartialFolder::publish(const std::filesystem::path& target) {
  if (::rename(path_.c_str(), target.c_str()) != 0) throw io_error(target.string());
  path_.clear();
}

}  // namespace lockstep::checkpoint
