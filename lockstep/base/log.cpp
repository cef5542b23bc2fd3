#include "lockstep/base/log.h"

#include <unistd.h>

#include <string>

namespace lockstep {

namespace {

void write_line(std::string_view prefix, std::string_view text) noexcept {
  try {
    std::string line(prefix);
    line += text;
    line += '\n';
    // A closed standard error is no reason to fail.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace

void log_warning(std::string_view message) noexcept {
  write_line("lockstep: warning: ", message);
}

void log_line(std::string_view line) noexcept {
  write_line("", line);
}

}  // namespace lockstep
