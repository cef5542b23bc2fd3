#include <array>

#include "lockstep/cli/command.h"

namespace lockstep::cli {
namespace {

constexpr std::array kCommands{
    Command{"data", "show or pack datasets", data_command},
    Command{"diff", "find the first difference between two runs or two weight files", diff_command},
    Command{"version", "print the version", version},
};

}  // namespace

std::span<const Command> data_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
