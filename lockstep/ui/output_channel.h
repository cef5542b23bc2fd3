#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/file.h"

namespace lockstep::ui {

/// Standard output or standard error, written without ever blocking.
///
/// A reader may be slow or stopped (a pager, Ctrl-S). What it does not take yet is kept, and the
/// caller goes on with other things. The descriptor itself is shared with other programs, so it is
/// not switched to non-blocking: pipes and terminals are opened once more, sockets are asked per
/// call.
class OutputChannel {
 public:
  explicit OutputChannel(int fd);

  bool is_terminal() const noexcept { return is_terminal_; }
  /// Columns of the terminal; 80 where it does not tell.
  int width() const;

  void write(std::string_view text);
  /// Goes on with what was kept.
  void resume();

  bool blocked() const noexcept { return !pending_.empty(); }
  /// To be polled for writing while blocked.
  int fd() const noexcept { return writable_ ? writable_.get() : fd_; }
  /// Why nothing more can be written: an errno, 0 while all is well.
  int error() const noexcept { return error_; }

 private:
  std::string_view write_some(std::string_view text);

  int fd_;
  bool is_terminal_;
  bool is_socket_;
  UniqueFd writable_;  ///< our own opening of the same pipe or terminal
  std::string pending_;
  int error_ = 0;
};

}  // namespace lockstep::ui
