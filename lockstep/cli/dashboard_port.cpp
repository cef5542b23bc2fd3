#include "lockstep/cli/dashboard_port.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::cli {

int parse_port(const std::string& where, const std::string& word) {
  constexpr std::int64_t kLast = 65535;
  const auto port = parse_integer(word);
  if (port && *port >= 0 && *port <= kLast) return static_cast<int>(*port);
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected a port from 0 to {}, found '{}'", where, kLast, word),
              "--dashboard 8517, or --dashboard 0 for one that is free");
}

std::vector<std::string> with_usual_port(std::vector<std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != "--dashboard") continue;
    const bool has_port = i + 1 < arguments.size() && parse_integer(arguments[i + 1]).has_value();
    if (!has_port) arguments[i] += fmt::format("={}", kUsualDashboardPort);
  }
  return arguments;
}

}  // namespace lockstep::cli
