#include "lockstep/ui/output_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::ui {

OutputChannel::OutputChannel(int fd) : fd_(fd), is_terminal_(::isatty(fd) == 1) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    error_ = errno;
    return;
  }
  is_socket_ = S_ISSOCK(info.st_mode);
  if (S_ISFIFO(info.st_mode) || is_terminal_) {
    const auto path = fmt::format("/proc/self/fd/{}", fd);
    own_opening_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    asks_first_ = !own_opening_;
  }
}

int OutputChannel::width() const {
  return terminal_width(fd_).value_or(80);
}

void OutputChannel::write(std::string_view text) {
  if (error_ != 0 || text.empty()) return;
  at_line_start_ = text.back() == '\n';
  if (!blocked()) text = write_some(text);
  if (error_ == 0) pending_ += text;
}

void OutputChannel::resume() {
  if (!blocked()) return;
  const auto rest = write_some(std::string_view(pending_).substr(written_));
  written_ = pending_.size() - rest.size();
  if (!blocked() || error_ != 0) {
    pending_.clear();
    written_ = 0;
  }
}

/// Returns what could not be written yet.
std::string_view OutputChannel::write_some(std::string_view text) {
  while (!text.empty()) {
    const auto count = write_once(text);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN) error_ = errno;
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return text;
}

long OutputChannel::write_once(std::string_view text) const {
  if (is_socket_) return ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (!asks_first_) return ::write(fd(), text.data(), text.size());
  // A pipe that is ready has room for PIPE_BUF bytes, so writing no more than that cannot block.
  pollfd ready{fd_, POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(fd_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
}

std::optional<int> terminal_width(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

bool lead_to_the_same(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

}  // namespace lockstep::ui
