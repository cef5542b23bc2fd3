#include "lockstep/data/pack/pack_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/fnv.h"
#include "lockstep/data/pack/pack_writer.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// A file that is being written, beside the one that it will replace. It is locked: whoever waits
/// for the lock finds out afterwards that the file was renamed, and looks for the result.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& target) : target_(target), path_(target) {
    path_ += ".partial";
    while (!lock()) {
    }
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() {
    if (file_) ::unlink(path_.c_str());
  }

  int fd() const { return file_.get(); }
  const fs::path& path() const { return path_; }

  /// Makes it the target, which is complete on disk before it has its name.
  void publish() {
    if (::fsync(file_.get()) != 0) throw io_error(path_);
    if (::rename(path_.c_str(), target_.c_str()) != 0) throw io_error(target_);
    file_.reset();
  }

 private:
  /// Whether the file that was locked is still the one that the path names.
  bool lock() {
    file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file_) throw io_error(path_);
    while (::flock(file_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) throw io_error(path_);
    }
    struct stat locked {};
    struct stat named {};
    if (::fstat(file_.get(), &locked) != 0) throw io_error(path_);
    return ::stat(path_.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
           locked.st_dev == named.st_dev;
  }

  fs::path target_;
  fs::path path_;
  UniqueFd file_;
};

std::string describe_differing(const Verification& verification) {
  return fmt::format(
      "lockstep: warning: {}: the checksum is not the published one; the structure "
      "is right, so it is used",
      fmt::join(verification.differing, ", "));
}

}  // namespace

std::string fingerprint_of(const FoundSet& found) {
  Fnv hash;
  hash.add(kPackVersion).add(found.name);
  for (const auto& path : found.files) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw io_error(path);
    hash.add(path.filename().string())
        .add(static_cast<std::uint64_t>(status.st_size))
        .add(static_cast<std::uint64_t>(status.st_mtim.tv_sec))
        .add(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
  }
  return fmt::format("{:016x}", hash.value());
}

PackStore::PackStore(fs::path folder, Tell tell)
    : folder_(std::move(folder)), tell_(std::move(tell)) {}

fs::path PackStore::path_of(const FoundSet& found) const {
  // Sets of the same name may lie in several folders.
  const auto origin = found.files.empty() ? fs::path() : found.files.front().parent_path();
  const auto key = Fnv().add(fs::weakly_canonical(origin).string()).value();
  return folder_ / fmt::format("{}-{:016x}.pack", found.name, key);
}

std::shared_ptr<const PackDataset> PackStore::find(const FoundSet& found) const {
  const auto path = path_of(found);
  if (!fs::exists(path)) return nullptr;
  try {
    auto pack = PackDataset::open(path);
    return pack->footer().fingerprint == fingerprint_of(found) ? pack : nullptr;
  } catch (const Error& error) {
    tell_(fmt::format("lockstep: warning: {}", error.what()));
    return nullptr;
  }
}

std::shared_ptr<const PackDataset> PackStore::find_or_make(const FoundSet& found,
                                                           const PackRequest& request) const {
  if (auto pack = find(found)) return pack;
  std::error_code failure;
  fs::create_directories(folder_, failure);
  if (failure)
    throw Error(ErrorKind::Io, fmt::format("{}: {}", folder_.string(), failure.message()));
  return make(found, path_of(found), request);
}

std::shared_ptr<const PackDataset> PackStore::make(const FoundSet& found, const fs::path& path,
                                                   const PackRequest& request) const {
  PartialFile partial(path);
  // Someone else may have made it while we waited for the lock.
  if (path == path_of(found) && !request.stores_files) {
    if (auto pack = find(found)) return pack;
  }
  const auto fingerprint = fingerprint_of(found);
  const auto set = found.read();
  const auto verification = found.verify();
  if (!verification.differing.empty()) tell_(describe_differing(verification));

  if (::ftruncate(partial.fd(), 0) != 0) throw io_error(partial.path());
  write_pack(partial.fd(), partial.path(), *set,
             {.name = found.name,
              .fingerprint = fingerprint,
              .is_verified = verification.all_known && verification.differing.empty(),
              .stores_files = request.stores_files,
              .threads = request.threads,
              .progress = request.progress});
  partial.publish();
  return PackDataset::open(path);
}

}  // namespace lockstep::data
