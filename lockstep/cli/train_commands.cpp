#include <array>

#include "lockstep/cli/command.h"

namespace lockstep::cli {
namespace {

constexpr std::array kCommands{
    Command{"train", "train a network", train_here},
    Command{"eval", "evaluate weights or a checkpoint", eval_here},
    Command{"plan", "show the plan of a training, without training", plan_here},
    Command{"model", "show networks and their weight files", model_command},
    Command{"version", "print the version", version},
};

}  // namespace

std::span<const Command> train_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
