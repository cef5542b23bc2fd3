// A library to preload into a program: kills it at the k-th call that changes something below a
// folder, so that a test sees what a crash at each of them leaves behind.
//
//     CRASH_AT_FOLDER=/tmp/x   what is counted
//     CRASH_AT_CALL=7          which call dies, before it has done anything; a write, half done
//     CRASH_AT_LOG=/tmp/log    a line for each call: "rename /tmp/x/a /tmp/x/b"
//     CRASH_AT_REFUSE=rename   this call fails instead, with EIO, from the k-th on
//     CRASH_AT_NO_LOCKS=38     flock fails everywhere, with this errno
//
// Nothing is brought to disk: that takes long, and whether it was asked for is in the log.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* const value = ::getenv(name);
  return value != nullptr ? value : "";
}

bool is_inside(const std::string& path, const std::string& folder) {
  return !folder.empty() && path.starts_with(folder) &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

std::string path_of(int fd) {
  char path[4096];
  const auto link = "/proc/self/fd/" + std::to_string(fd);
  const auto size = ::readlink(link.c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "";
}

std::string path_at(int folder, const char* path) {
  if (path[0] == '/' || folder == AT_FDCWD) return path;
  return path_of(folder) + "/" + path;
}

enum class Fate { Passes, Dies, Fails };

Fate count(const char* call, const std::string& path, const std::string& second = "") {
  static int calls = 0;
  const auto folder = variable("CRASH_AT_FOLDER");
  if (!is_inside(path, folder)) return Fate::Passes;
  ++calls;
  if (const auto log = variable("CRASH_AT_LOG"); !log.empty()) {
    const auto line = std::string(call) + " " + path + (second.empty() ? "" : " " + second) + "\n";
    const auto file = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    ::syscall(SYS_write, file, line.data(), line.size());
    ::syscall(SYS_close, file);
  }
  const int at = std::atoi(variable("CRASH_AT_CALL").c_str());
  if (const auto refused = variable("CRASH_AT_REFUSE"); !refused.empty()) {
    return refused == call && calls >= at ? Fate::Fails : Fate::Passes;
  }
  return calls == at ? Fate::Dies : Fate::Passes;
}

/// Whether the call may go on.
bool passes(Fate fate) {
  if (fate == Fate::Dies) ::syscall(SYS_kill, ::getpid(), SIGKILL);
  if (fate == Fate::Fails) errno = EIO;
  return fate == Fate::Passes;
}

int open_counted(const char* call, int folder, const char* path, int flags, va_list arguments) {
  const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, int) : 0;
  if (!passes(count(call, path_at(folder, path)))) return -1;
  return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

}  // namespace

// The names and types are the C library's.
#pragma GCC visibility push(default)  // other code of the process calls these
extern "C" {

int mkdir(const char* path, mode_t mode) noexcept {
  if (!passes(count("mkdir", path))) return -1;
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_counted("open", AT_FDCWD, path, flags, arguments);
  va_end(arguments);
  return file;
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_counted("open", AT_FDCWD, path, flags, arguments);
  va_end(arguments);
  return file;
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_counted("open", folder, path, flags, arguments);
  va_end(arguments);
  return file;
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_counted("open", folder, path, flags, arguments);
  va_end(arguments);
  return file;
}

ssize_t write(int fd, const void* bytes, size_t size) {
  const auto fate = count("write", path_of(fd));
  if (fate == Fate::Dies) ::syscall(SYS_write, fd, bytes, size / 2);
  if (!passes(fate)) return -1;
  return ::syscall(SYS_write, fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  const auto fate = count("write", path_of(fd));
  if (fate == Fate::Dies) ::syscall(SYS_pwrite64, fd, bytes, size / 2, offset);
  if (!passes(fate)) return -1;
  return ::syscall(SYS_pwrite64, fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  return pwrite(fd, bytes, size, offset);
}

ssize_t writev(int fd, const struct iovec* pieces, int pieces_count) {
  const auto fate = count("write", path_of(fd));
  if (fate == Fate::Dies) ::syscall(SYS_writev, fd, pieces, pieces_count / 2);
  if (!passes(fate)) return -1;
  return ::syscall(SYS_writev, fd, pieces, pieces_count);
}

int ftruncate(int fd, off_t size) noexcept {
  if (!passes(count("ftruncate", path_of(fd)))) return -1;
  return static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}

int fsync(int fd) {
  return passes(count("fsync", path_of(fd))) ? 0 : -1;
}

int fdatasync(int fd) {
  return passes(count("fdatasync", path_of(fd))) ? 0 : -1;
}

int flock(int fd, int operation) noexcept {
  if (const auto refused = variable("CRASH_AT_NO_LOCKS"); !refused.empty()) {
    errno = std::atoi(refused.c_str());
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

int rename(const char* from, const char* to) noexcept {
  if (!passes(count("rename", from, to))) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (!passes(count("rename", path_at(from_folder, from), path_at(to_folder, to)))) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  if (!passes(count("rename", path_at(from_folder, from), path_at(to_folder, to)))) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int unlink(const char* path) noexcept {
  if (!passes(count("unlink", path))) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (!passes(count("unlink", path_at(folder, path)))) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

int rmdir(const char* path) noexcept {
  if (!passes(count("unlink", path))) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int remove(const char* path) noexcept {
  struct stat status {};
  const bool is_folder = ::lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return is_folder ? rmdir(path) : unlink(path);
}

}  // extern "C"
#pragma GCC visibility pop
