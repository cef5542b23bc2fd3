#include <array>

#include "lockstep/cli/command.h"

namespace lockstep::cli {
namespace {

constexpr std::array kCommands{
    Command{"dashboard", "show jobs in a browser", dashboard_here},
    Command{"version", "print the version", version},
};

}  // namespace

std::span<const Command> dashboard_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
