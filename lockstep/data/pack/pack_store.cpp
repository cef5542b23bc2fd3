#include "lockstep/data/pack/pack_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
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

/// Keeps others from making the same pack at the same time. Only to spare them the work: a pack is
/// written to a file of each process's own, so that nothing breaks where locks do not work.
class PackLock {
 public:
  explicit PackLock(const fs::path& pack) : path_(pack.string() + ".lock") {
    while (!lock()) {
    }
  }
  PackLock(const PackLock&) = delete;
  PackLock& operator=(const PackLock&) = delete;
  /// Removed while it is locked: who waits for it notices, and makes a new one.
  ~PackLock() { ::unlink(path_.c_str()); }

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

  std::string path_;
  UniqueFd file_;
};

/// What processes left that died while they made this pack.
void remove_partial_files(const fs::path& pack) {
  std::error_code failure;
  const auto prefix = pack.filename().string() + ".partial.";
  for (const auto& entry : fs::directory_iterator(pack.parent_path(), failure)) {
    if (entry.path().filename().string().starts_with(prefix)) fs::remove(entry.path(), failure);
  }
}

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw Error(ErrorKind::Io, fmt::format("{}: {}", folder.string(), failure.message()));
}

/// Whether every byte is as it was written.
bool is_sound(const PackDataset& pack) {
  try {
    pack.verify();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// With its length before it, so that no two lists of texts look the same.
void add_text(Fnv& hash, const std::string& text) {
  hash.add(text.size()).add(text);
}

}  // namespace

std::string fingerprint_of(const FoundSet& found) {
  Fnv hash;
  hash.add(kPackVersion);
  add_text(hash, found.name);
  add_text(hash, found.recipe);
  for (const auto& path : found.files) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw io_error(path);
    add_text(hash, path.string());
    // The time of the inode too: who unpacks an archive anew restores the times of its files.
    for (const auto number : {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                              status.st_ctim.tv_sec, status.st_ctim.tv_nsec}) {
      hash.add(static_cast<std::uint64_t>(number));
    }
  }
  return fmt::format("{:016x}", hash.value());
}

PackStore::PackStore(fs::path folder, Tell tell)
    : folder_(std::move(folder)), tell_(std::move(tell)) {}

fs::path PackStore::path_of(const FoundSet& found) const {
  // Sets of the same name may lie in several folders.
  const auto origin = found.files.empty() ? fs::path() : found.files.front().parent_path();
  std::error_code failure;
  auto canonical = fs::weakly_canonical(origin, failure);
  if (failure) canonical = origin;
  Fnv key;
  add_text(key, canonical.string());
  add_text(key, found.recipe);
  return folder_ / fmt::format("{}-{:016x}.pack", found.name, key.value());
}

std::shared_ptr<const PackDataset> PackStore::find(const FoundSet& found) const {
  const auto path = path_of(found);
  std::error_code failure;
  if (!fs::exists(path, failure)) return nullptr;
  try {
    auto pack = PackDataset::open(path);
    return pack->footer().fingerprint == fingerprint_of(found) ? pack : nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

std::shared_ptr<const PackDataset> PackStore::find_or_make(const FoundSet& found) const {
  const auto any = [](const PackDataset&) { return true; };
  if (auto pack = find(found)) return pack;
  return make_once(found, {}, any);
}

std::shared_ptr<const PackDataset> PackStore::check_or_make(const FoundSet& found,
                                                            const PackRequest& request) const {
  const auto is_as_requested = [&](const PackDataset& pack) {
    return pack.footer().stores_files == request.stores_files && is_sound(pack);
  };
  if (auto pack = find(found); pack && is_as_requested(*pack)) return pack;
  return make_once(found, request, is_as_requested);
}

std::shared_ptr<const PackDataset> PackStore::make_once(const FoundSet& found,
                                                        const PackRequest& request,
                                                        const WillDo& will_do) const {
  make_folder(folder_);
  const auto path = path_of(found);
  const PackLock lock(path);
  // Someone else may have made it while we waited for the lock.
  if (auto pack = find(found); pack && will_do(*pack)) return pack;
  std::error_code failure;
  if (fs::exists(path, failure)) {
    tell_(fmt::format("{}: made anew: it is damaged, or its original has changed", path.string()));
  }
  remove_partial_files(path);
  return make(found, path, request);
}

std::shared_ptr<const PackDataset> PackStore::make(const FoundSet& found, const fs::path& path,
                                                   const PackRequest& request) const {
  const auto fingerprint = fingerprint_of(found);
  const auto set = found.read();
  const auto verification = found.verify();
  write_pack(path, *set,
             {.name = found.name,
              .fingerprint = fingerprint,
              .is_verified = verification.all_known && verification.differing.empty(),
              .differing = verification.differing,
              .stores_files = request.stores_files,
              .threads = request.threads,
              .progress = request.progress});
  return PackDataset::open(path);
}

void tell_of_originals(const PackDataset& pack, const Tell& tell) {
  const auto& footer = pack.footer();
  if (footer.is_verified) {
    tell(fmt::format("{}: files found, checksums are correct", footer.name));
  }
  if (footer.differing.empty()) return;
  tell(
      fmt::format("lockstep: warning: {}: the checksum is not the published one; the structure is "
                  "right, so it is used",
                  fmt::join(footer.differing, ", ")));
}

}  // namespace lockstep::data
