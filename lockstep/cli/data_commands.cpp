#include <array>

#include "lockstep/cli/command.h"

namespace lockstep::cli {
namespace {

constexpr std::array kCommands{
    Command{"data", "data sets: what they hold, and packs of them", data_command},
    Command{"diff", "where two runs or two weight files differ", diff_command},
    Command{"version", "print the version", version},
};

}  // namespace

std::span<const Command> data_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
