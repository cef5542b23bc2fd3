#include "lockstep/monitor/status/job_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

namespace lockstep::monitor {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

UniqueFd open_job_folder(const std::string& path) {
  return UniqueFd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

UniqueFd open_in_folder(const UniqueFd& folder, const std::string& name) {
  struct stat of_folder {};
  struct stat of_file {};
  UniqueFd file(::openat(folder.get(), name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  const bool is_theirs = file && ::fstat(folder.get(), &of_folder) == 0 &&
                         ::fstat(file.get(), &of_file) == 0 && S_ISREG(of_file.st_mode) &&
                         of_file.st_uid == of_folder.st_uid;
  return is_theirs ? std::move(file) : UniqueFd();
}

}  // namespace lockstep::monitor
