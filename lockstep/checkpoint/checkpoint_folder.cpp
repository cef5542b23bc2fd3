#include "lockstep/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checked_file.h"
#include "lockstep/checkpoint/folder_name.h"
#include "lockstep/checkpoint/partial_folder.h"
#include "lockstep/checkpoint/pruning.h"
#include "lockstep/weights/digest.h"
#include "lockstep/weights/safetensors.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path parent_of(const fs::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/// Makes a folder and those above it. Their names are on disk before anything is in them.
void make_folders(const fs::path& path) {
  constexpr mode_t kFolderMode = 0777;
  if (::mkdir(path.c_str(), kFolderMode) == 0) return sync_folder(parent_of(path));
  if (errno == EEXIST) return;
  if (errno != ENOENT || parent_of(path) == path) throw io_error(path.string());
  make_folders(parent_of(path));
  if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) throw io_error(path.string());
  sync_folder(parent_of(path));
}

/// Not every file system knows such locks, and some only on files that are open for writing. They
/// guard against a mistake of the user; to refuse to train for want of one would be another.
bool has_no_locks(int error) {
  return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK || error == EINVAL ||
         error == EBADF;
}

UniqueFd open_and_lock(const fs::path& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Better now than after an hour of training.
  if (!folder || ::access(path.c_str(), W_OK | X_OK) != 0) throw io_error(path.string());
  while (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (has_no_locks(errno)) break;
    if (errno != EWOULDBLOCK) throw io_error("lock " + path.string());
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("{}: another training writes checkpoints into this folder", path.string()),
        "wait until it has ended, or choose another folder");
  }
  return folder;
}

FileEntry write_tensors(const fs::path& path, const weights::TensorSet& set) {
  CheckedFile file(path);
  weights::write_safetensors([&](std::span<const std::byte> bytes) { file.append(bytes); }, set,
                             path.string());
  return file.finish();
}

void write_manifest(const fs::path& path, const Manifest& manifest) {
  const auto text = to_json(manifest);
  parse_manifest(text, path.string());  // what could not be read again is not worth a name
  CheckedFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

std::string time_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

bool is_partial(const fs::directory_entry& entry) {
  std::error_code unknown;
  return entry.path().filename().string().starts_with(kPartialPrefix) &&
         fs::is_directory(entry.symlink_status(unknown));
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, Keeping keeping)
    : path_(std::move(folder)), keeping_(std::move(keeping)) {
  make_folders(path_);
  lock_ = open_and_lock(path_);
  clean_up();
}

fs::path CheckpointFolder::write(const Content& content) {
  const FolderName name{.step = content.manifest.position.step};
  PartialFolder partial(path_, to_text(name));
  auto manifest = content.manifest;
  manifest.files = {write_tensors(partial.path() / kWeightsName, content.weights),
                    write_tensors(partial.path() / kStateName, content.state)};
  manifest.weights = weights::digest_of(content.weights);
  manifest.written = time_now();
  write_manifest(partial.path() / kManifestName, manifest);
  sync_folder(partial.path());
  put_in_place(partial, name);
  prune(name);
  return path_ / to_text(name);
}

/// A folder that is not empty cannot be replaced at once. So the old one gets another name, under
/// which it is found as well, until the new one is there for good.
void CheckpointFolder::put_in_place(PartialFolder& partial, const FolderName& name) {
  const auto target = path_ / to_text(name);
  const auto replaced = path_ / to_text({.step = name.step, .is_current = false});
  std::error_code unknown;
  if (fs::exists(target, unknown)) discard({replaced});  // what could not be removed before
  const bool replaces = ::rename(target.c_str(), replaced.c_str()) == 0;
  if (!replaces && errno != ENOENT) throw io_error(target.string());
  try {
    if (replaces) sync_folder(lock_.get(), path_);
    partial.publish(target);
  } catch (const Error&) {
    if (replaces) ::rename(replaced.c_str(), target.c_str());
    throw;
  }
  sync_folder(lock_.get(), path_);
}

/// After a crash: what was being written or removed goes, and of two of the same step the older.
/// One that was about to be replaced gets its name back.
void CheckpointFolder::clean_up() {
  std::error_code ignored;  // what is left takes room, and does no harm
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (is_partial(*entry)) leftovers.push_back(entry->path());
  }
  for (const auto& leftover : leftovers) fs::remove_all(leftover, ignored);
  for (const auto& path : list_checkpoints(path_)) {
    const auto name = parse_folder_name(path.filename().string());
    if (!name || name->is_current) continue;
    const auto target = path_ / to_text({.step = name->step});
    if (fs::exists(target, ignored)) {
      discard({path});
    } else {
      fs::rename(path, target, ignored);
    }
  }
}

void CheckpointFolder::prune(const FolderName& written) noexcept try {
  const auto replaced = path_ / to_text({.step = written.step, .is_current = false});
  auto candidates = candidates_in(path_, keeping_.best_metric);
  std::erase_if(candidates, [&](const Candidate& one) { return one.path == replaced; });
  auto folders = superfluous(candidates, path_ / to_text(written), keeping_);
  folders.push_back(replaced);
  discard(folders);
} catch (const std::exception&) {  // the checkpoint is written, and that is what counts
}

/// Removes those that are there. None is ever seen half removed, not even after a crash of the
/// machine.
void CheckpointFolder::discard(const std::vector<fs::path>& folders) {
  std::vector<fs::path> partial;
  for (const auto& folder : folders) {
    partial.push_back(path_ / partial_name(folder.filename().string()));
    if (::rename(folder.c_str(), partial.back().c_str()) != 0) partial.pop_back();
  }
  if (partial.empty()) return;
  sync_folder(lock_.get(), path_);
  std::error_code ignored;
  for (const auto& folder : partial) fs::remove_all(folder, ignored);
}

}  // namespace lockstep::checkpoint
