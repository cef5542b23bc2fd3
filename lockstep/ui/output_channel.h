#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/file.h"

namespace lockstep::ui {

/// Standard output or standard error, written without ever blocking.
///
/// A reader may be slow or stopped (a pager, Ctrl-S). What it does not take yet is kept, and the
/// caller goes on with other things. The descriptor itself is shared with other programs, so it is
/// not switched to non-blocking. Pipes and terminals are opened once more; where that is not
/// allowed (they belong to another user), they are asked before each small write. Sockets are told
/// per call.
class OutputChannel {
 public:
  explicit OutputChannel(int fd);

  bool is_terminal() const noexcept { return is_terminal_; }
  /// Columns of the terminal; 80 where it does not tell.
  int width() const;

  void write(std::string_view text);
  /// Goes on with what was kept.
  void resume();

  /// Whether the last character was a line feed, or none was written yet.
  bool at_line_start() const noexcept { return at_line_start_; }

  bool blocked() const noexcept { return written_ < pending_.size(); }
  /// To be polled for writing while blocked.
  int fd() const noexcept { return own_opening_ ? own_opening_.get() : fd_; }
  /// Why nothing more can be written: an errno, 0 while all is well.
  int error() const noexcept { return error_; }

 private:
  std::string_view write_some(std::string_view text);
  long write_once(std::string_view text) const;

  int fd_;
  bool is_terminal_ = false;
  bool is_socket_ = false;
  bool asks_first_ = false;
  bool at_line_start_ = true;
  UniqueFd own_opening_;
  std::string pending_;
  std::size_t written_ = 0;  ///< how much of `pending_` is out already
  int error_ = 0;
};

/// Columns of the terminal that a descriptor leads to; nothing where it leads elsewhere.
std::optional<int> terminal_width(int fd);

/// Whether two descriptors lead to the same pipe, terminal or file, as after `2>&1`.
bool lead_to_the_same(int a, int b);

}  // namespace lockstep::ui
