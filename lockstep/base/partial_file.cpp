#include "lockstep/base/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

namespace {

/// As many as Linux follows.
constexpr int kMostLinks = 40;
constexpr mode_t kPermissions = 0777;
constexpr mode_t kUnlessMasked = 0666;

/// What the name stands for in the end, which need not exist: a link stays one, and what it points
/// to is replaced.
std::filesystem::path without_links(std::filesystem::path path) {
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const auto link = std::filesystem::read_symlink(path, error);
    if (error) return path;
    path = path.parent_path() / link;  // which is the link alone where that is absolute
  }
  errno = ELOOP;
  throw io_error(path.string());
}

/// `mkostemp` would make it 0600, and what the umask leaves of 0666 only `open` can tell: reading
/// the umask means to change it, for all threads.
UniqueFd make_beside(const std::filesystem::path& target, mode_t mode, std::string& path) {
  std::random_device random;
  while (true) {
    path = fmt::format("{}.partial.{:08x}", target.string(), random());
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (file) return file;
    if (errno != EEXIST && errno != EINTR) throw io_error(path);
  }
}

/// Until then a crash of the machine may bring the old file back.
void sync_folder_of(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const UniqueFd file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file) return;  // one may be allowed to write into a folder, but not to list it
  // Not every file system knows how to.
  if (::fsync(file.get()) != 0 && errno != EINVAL) throw io_error(folder.string());
}

}  // namespace

PartialFile::PartialFile(std::filesystem::path target) : target_(without_links(std::move(target))) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected a file that may be replaced, found another kind",
                            target_.string()));
  }
  const auto mode = exists ? status.st_mode & kPermissions : kUnlessMasked;
  file_ = make_beside(target_, mode, path_);
  // The umask took away from what the old file had; where that stays so, less is allowed, not more.
  if (exists) ::fchmod(file_.get(), mode);
}

PartialFile::~PartialFile() {
  if (file_) ::unlink(path_.c_str());
}

void PartialFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw io_error(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void PartialFile::publish() {
  if (::fsync(file_.get()) != 0) throw io_error(path_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) throw io_error(target_);
  file_.reset();
  sync_folder_of(target_);
}

}  // namespace lockstep
