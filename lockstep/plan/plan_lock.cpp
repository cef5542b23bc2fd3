#include "lockstep/plan/plan_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lockstep/base/strings.h"

namespace lockstep::plan {
namespace {

constexpr mode_t kUnlessMasked = 0666;

/// 0, or the reason why it was not locked.
int lock_file(int file) noexcept {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

bool is_same_file(int file, const std::string& path) noexcept {
  struct stat open {};
  struct stat named {};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

/// For the messages of those who wait. Where the disk is full, they do not name us.
void write_process_id(int file) {
  const auto text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file, 0) != 0) return;
  [[maybe_unused]] const auto written = ::pwrite(file, text.data(), text.size(), 0);
}

}  // namespace

PlanLock::~PlanLock() {
  // Removed while it is locked: who waits for it notices, and makes a new one.
  if (is_held_ && is_file_of_path()) ::unlink(path_.c_str());
}

bool PlanLock::is_file_of_path() const {
  return is_same_file(file_.get(), path_);
}

PlanLock::Holder PlanLock::try_lock() {
  while (!is_held_) {
    if (!file_) file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kUnlessMasked));
    if (!file_) return Holder::Nobody;
    errno = lock_file(file_.get());
    if (errno != 0) return errno == EWOULDBLOCK ? Holder::Others : Holder::Nobody;
    is_held_ = is_file_of_path();
    // Whoever held it has removed it: what the path names now is another one.
    if (!is_held_) file_.reset();
  }
  write_process_id(file_.get());
  return Holder::Us;
}

std::string PlanLock::name_of_holder() const {
  std::array<char, 32> text{};
  const auto size = ::pread(file_.get(), text.data(), text.size(), 0);
  const std::string_view read(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  const auto process = parse_integer(trim(read));
  return process ? fmt::format("process {}", *process) : "somebody else";
}

void remove_lock_file(const std::string& path) noexcept {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (file && lock_file(file.get()) == 0 && is_same_file(file.get(), path)) ::unlink(path.c_str());
}

}  // namespace lockstep::plan
