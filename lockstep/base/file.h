#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// Owns one file descriptor and closes it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

/// The two ends of a pipe; both are closed on exec.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe();

/// Opens /dev/null in place of standard streams that were closed by whoever started this process,
/// so that no other file can get their numbers.
void open_missing_standard_streams();

/// A whole file as text. Throws `Io`, naming the file.
std::string read_file(const std::string& path);

/// Replaces a file's content. Throws `Io`, naming the file.
void write_file(const std::string& path, std::string_view content);

}  // namespace lockstep
