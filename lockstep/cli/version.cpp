#include "lockstep/base/version.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lockstep/cli/command.h"

namespace lockstep::cli {

int version(const Invocation& invocation) {
  CLI::App app("Prints the version, the commit and the compiler.", "version");
  set_usage(app, "version");
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  fmt::print("lockstep {} (commit {}, {})\n", lockstep::version(), commit(), build_description());
  return 0;
}

}  // namespace lockstep::cli
