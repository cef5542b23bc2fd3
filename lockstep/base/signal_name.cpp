#include "lockstep/base/signal_name.h"

#include <fmt/format.h>

#include <cstring>

namespace lockstep {

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation)
                                 : fmt::format("signal {}", signal);
}

}  // namespace lockstep
