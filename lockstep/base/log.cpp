#include "lockstep/base/log.h"

#include <unistd.h>

#include <string>

namespace lockstep {

void log_warning(std::string_view message) noexcept {
  try {
    std::string line = "lockstep: warning: ";
    line += message;
    line += '\n';
    // A closed standard error is no reason to fail.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace lockstep
