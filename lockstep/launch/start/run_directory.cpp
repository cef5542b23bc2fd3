#include "lockstep/launch/start/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

std::string random_id() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) throw io_error("getrandom");
  return fmt::format("{:012x}", number & 0xffff'ffff'ffff);
}

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::string in_temporary_folder(const std::string& folder) {
  return fs::absolute(fmt::format("{}/lockstep-{}", folder, ::getuid())).string();
}

/// The folder that holds the folders of all this user's jobs.
std::string choose_parent(const topology::Environment& environment) {
  // Under sudo the runtime directory may still be that of the user who called it.
  const auto runtime = environment.get("XDG_RUNTIME_DIR").value_or("");
  struct stat info {};
  if (::stat(runtime.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid()) {
    return fs::absolute(runtime + "/lockstep").string();
  }
  const auto temporary = environment.get("TMPDIR").value_or("");
  return in_temporary_folder(temporary.empty() ? "/tmp" : temporary);
}

bool is_private_folder(const struct stat& info) {
  return S_ISDIR(info.st_mode) && info.st_uid == ::getuid() && (info.st_mode & 0077) == 0;
}

void make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw io_error("run: mkdir " + path);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return;  // another job has just removed it; the caller comes again
    throw io_error("run: " + path);
  }
  if (!is_private_folder(info)) {
    throw Error(
        ErrorKind::Io,
        fmt::format("run: {} is not a folder that only user {} can enter", path, ::getuid()),
        "remove it, or set XDG_RUNTIME_DIR or TMPDIR to a folder of your own");
  }
}

/// A lock is on what was opened, which may have been removed before it was ours, and another folder
/// made under the name since then.
bool is_still_named(const UniqueFd& folder, const std::string& path) {
  struct stat locked {};
  struct stat named {};
  return ::fstat(folder.get(), &locked) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

bool is_ours(const UniqueFd& folder) {
  struct stat info {};
  return ::fstat(folder.get(), &info) == 0 && info.st_uid == ::getuid();
}

/// What `random_id` makes: nothing else that somebody may have put there is ours to remove.
bool is_job_id(const std::string& name) {
  return name.size() == 12 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Else the folder above it may be a link of somebody else's, to where we keep other things.
bool is_in_private_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(fs::path(path).parent_path().c_str(), &info) == 0 && is_private_folder(info);
}

}  // namespace

bool remove_if_abandoned(const std::string& path) {
  if (!is_job_id(fs::path(path).filename().string()) || !is_in_private_folder(path)) return false;
  const auto folder = open_folder(path);
  if (!folder || !is_ours(folder) || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (!is_still_named(folder, path)) return false;
  std::error_code ignored;
  fs::remove_all(path, ignored);
  return true;
}

std::vector<std::string> run_directory_parents(const topology::Environment& environment) {
  std::vector<std::string> parents{choose_parent(environment)};
  const auto add = [&](const std::string& parent) {
    if (std::find(parents.begin(), parents.end(), parent) == parents.end()) {
      parents.push_back(parent);
    }
  };
  // A job of cron's, or one that was started over ssh, may know of fewer variables, or of others.
  add(fmt::format("/run/user/{}/lockstep", ::getuid()));
  const auto temporary = environment.get("TMPDIR").value_or("");
  if (!temporary.empty()) add(in_temporary_folder(temporary));
  add(in_temporary_folder("/tmp"));
  return parents;
}

RunDirectory::RunDirectory(const topology::Environment& environment)
    : parent_(choose_parent(environment)), job_id_(random_id()), path_(parent_ + "/" + job_id_) {}

void RunDirectory::create() {
  while (!try_create()) {
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent_, ignored)) {
    if (entry.path() != path_) remove_if_abandoned(entry.path());
  }
}

/// False where another job took away the parent, or our folder before it was locked.
bool RunDirectory::try_create() {
  make_private_folder(parent_);
  if (::mkdir(path_.c_str(), 0700) != 0) {
    if (errno == ENOENT) return false;
    throw io_error("run: mkdir " + path_);
  }
  lock_ = open_folder(path_);
  if (!lock_ && errno == ENOENT) return false;
  if (!lock_) throw io_error("run: open " + path_);
  if (::flock(lock_.get(), LOCK_EX) != 0) throw io_error("run: lock " + path_);
  return is_still_named(lock_, path_);
}

void RunDirectory::remove() const noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::rmdir(parent_.c_str());  // fails while other jobs are in it, as it should
}

}  // namespace lockstep::launch
