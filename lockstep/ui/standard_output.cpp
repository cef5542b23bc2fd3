#include "lockstep/ui/standard_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "lockstep/base/file.h"
#include "lockstep/ui/output_channel.h"

namespace lockstep::ui {
namespace {

/// Through the C library, since the program's own lines wait in the same buffer.
void write_at_once(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

/// Below a launcher that passes bytes on as they are, frames end on the terminal that it was
/// started from.
std::optional<int> width_of_own_terminal() {
  if (const auto width = terminal_width(STDOUT_FILENO)) return width;
  const UniqueFd terminal(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
  return terminal ? terminal_width(terminal.get()) : std::nullopt;
}

}  // namespace

OutputKind kind_of_output(int fd) {
  struct stat info {};
  if (::isatty(fd) == 1) return OutputKind::Terminal;
  return ::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) ? OutputKind::Pipe : OutputKind::Other;
}

BarStyle bar_style(const World& world, OutputKind output) noexcept {
  if (world.instance() != 0) return BarStyle::Silent;
  const bool launcher_reads =
      world.launched_by() == topology::LaunchedBy::Lockstep && output == OutputKind::Pipe;
  return output == OutputKind::Terminal || launcher_reads ? BarStyle::Live : BarStyle::Lines;
}

BarOutput standard_output(const World& world) {
  return {.style = bar_style(world, kind_of_output(STDOUT_FILENO)),
          .write = [](std::string_view text) { write_at_once(stdout, text); },
          .columns = width_of_own_terminal};
}

Writer standard_error() {
  return [](std::string_view text) { write_at_once(stderr, text); };
}

}  // namespace lockstep::ui
