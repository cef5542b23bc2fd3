#include "lockstep/ui/output_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::ui {

OutputChannel::OutputChannel(int fd) : fd_(fd), is_terminal_(::isatty(fd) == 1), is_socket_(false) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    error_ = errno;  // closed by whoever started us
    return;
  }
  is_socket_ = S_ISSOCK(info.st_mode);
  if (S_ISFIFO(info.st_mode) || is_terminal_) {
    const auto path = fmt::format("/proc/self/fd/{}", fd);
    writable_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  }
}

int OutputChannel::width() const {
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void OutputChannel::write(std::string_view text) {
  if (error_ != 0) return;
  if (pending_.empty()) text = write_some(text);
  if (error_ == 0) pending_ += text;
}

void OutputChannel::resume() {
  if (pending_.empty()) return;
  const auto rest = write_some(pending_).size();
  pending_.erase(0, pending_.size() - rest);
  if (error_ != 0) pending_.clear();
}

/// Returns what could not be written yet.
std::string_view OutputChannel::write_some(std::string_view text) {
  while (!text.empty()) {
    const auto count = is_socket_ ? ::send(fd_, text.data(), text.size(), MSG_DONTWAIT)
                                  : ::write(fd(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN) error_ = errno;
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace lockstep::ui
