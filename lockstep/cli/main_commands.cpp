#include <array>

#include "lockstep/cli/command.h"
#include "lockstep/cli/hand_on.h"

namespace lockstep::cli {
namespace {

int data_elsewhere(const Invocation& invocation) {
  auto arguments = invocation.arguments;
  arguments.insert(arguments.begin(), "data");
  hand_on("lockstep-data", arguments, invocation.environment);
}

constexpr std::array kCommands{
    Command{"run", "start a program in many instances and watch over them", run},
    Command{"data", "data sets: what they hold, and packs of them", data_elsewhere},
    Command{"bench", "measure this machine: launch, comm, data", bench},
    Command{"doctor", "what this build and this machine offer", doctor},
    Command{"version", "print the version", version},
};

}  // namespace

std::span<const Command> main_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
