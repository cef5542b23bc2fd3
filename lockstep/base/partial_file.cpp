#include "lockstep/base/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

PartialFile::PartialFile(std::filesystem::path target) : target_(std::move(target)) {
  struct stat status {};
  if (::stat(target_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected a file that may be replaced, found another kind",
                            target_.string()));
  }
  path_ = target_.string() + ".partial.XXXXXX";
  file_.reset(::mkostemp(path_.data(), O_CLOEXEC));
  if (!file_) throw io_error(path_);
  ::fchmod(file_.get(), 0644);
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
}

}  // namespace lockstep
