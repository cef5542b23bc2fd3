#include "lockstep/ui/terminal_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/ui/text_width.h"

namespace lockstep::ui {
namespace {

// A screen beside the one with the user's own lines, and no cursor on it.
constexpr std::string_view kOtherScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kOwnScreen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kToTheTop = "\x1b[H";
constexpr std::string_view kClearRestOfLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

/// How long the terminal may take to take back what was there before.
constexpr int kFarewellMilliseconds = 500;

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorKind::Options, std::string("monitor --watch: ") + what,
              "lockstep monitor without --watch, or with --json for a program");
}

}  // namespace

TerminalScreen::TerminalScreen()
    : output_(STDOUT_FILENO),
      input_(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
  if (!output_.is_terminal()) refuse("expected a terminal to draw on, found something else");
  if (!input_ || ::tcgetattr(input_.get(), &before_) != 0) {
    refuse("expected a terminal to take keys from, found none");
  }
  enter();
}

TerminalScreen::~TerminalScreen() {
  leave();
}

int TerminalScreen::rows() const {
  winsize size{};
  constexpr int kUsual = 24;
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

void TerminalScreen::enter() {
  if (is_entered_) return;
  auto settings = before_;
  // Ctrl-C and Ctrl-Z stay signals.
  settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  settings.c_cc[VMIN] = 0;
  settings.c_cc[VTIME] = 0;
  is_entered_ = true;
  ::tcsetattr(input_.get(), TCSANOW, &settings);
  output_.write(kOtherScreen);
}

void TerminalScreen::leave() noexcept {
  if (!is_entered_) return;
  is_entered_ = false;
  try {
    output_.write(kOwnScreen);
    write_out();
  } catch (const std::exception&) {
    // Without memory for these few bytes; the settings matter more.
  }
  ::tcsetattr(input_.get(), TCSANOW, &before_);
}

void TerminalScreen::write_out() noexcept {
  pollfd ready{output_.fd(), POLLOUT, 0};
  while (output_.blocked() && ::poll(&ready, 1, kFarewellMilliseconds) > 0) output_.resume();
}

void TerminalScreen::draw(std::string_view text) {
  output_.resume();
  if (output_.blocked()) return;
  std::string frame(kToTheTop);
  const auto width = static_cast<std::size_t>(columns());
  int room = rows();
  for (const auto line : split(text, '\n')) {
    if (room-- == 0) break;
    if (frame.size() > kToTheTop.size()) frame += '\n';
    frame += clip(line, width);
    frame += kClearRestOfLine;
  }
  frame += kClearBelow;
  output_.write(frame);
}

std::optional<char> TerminalScreen::take_key() {
  char key = 0;
  const auto count = ::read(input_.get(), &key, 1);
  if (count == 1) return key;
  is_gone_ = is_gone_ || (count < 0 && errno != EAGAIN && errno != EINTR);
  return std::nullopt;
}

}  // namespace lockstep::ui
