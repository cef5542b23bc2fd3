#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/ui/output_channel.h"

namespace lockstep::ui {

/// A terminal that a program has to itself for a while: a screen of its own, on which it draws in
/// place, and keys as they are pressed. What was there before comes back when this is destroyed.
///
/// Never blocks: while the terminal takes nothing (Ctrl-S), drawings are left out.
class TerminalScreen {
 public:
  /// Throws `Options` where standard output is no terminal, or there is none to take keys from.
  TerminalScreen();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  int columns() const { return output_.width(); }
  int rows() const;

  /// Replaces what is on the screen, as far as it fits.
  void draw(std::string_view text);

  /// Gives the terminal back for a while, as before SIGSTOP, and takes it again.
  void leave() noexcept;
  void enter();

  /// To be polled for reading; a key that was pressed, if any; and whether the terminal is gone.
  int input() const noexcept { return input_.get(); }
  std::optional<char> take_key();
  bool is_gone() const noexcept { return is_gone_ || output_.error() != 0; }

 private:
  void write_out() noexcept;

  OutputChannel output_;
  UniqueFd input_;
  termios before_{};
  bool is_entered_ = false;
  bool is_gone_ = false;
};

}  // namespace lockstep::ui
