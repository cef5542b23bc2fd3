#include <array>

#include "lockstep/cli/command.h"

namespace lockstep::cli {
namespace {

constexpr std::array kCommands{
    Command{"train", "train a network on a data set", train_here},
    Command{"eval", "evaluate weights: accuracy, classes, confusion matrix", eval_here},
    Command{"plan", "show what a training would decide", plan_here},
    Command{"model", "networks: what they are made of, and files of their weights", model_command},
    Command{"version", "print the version", version},
};

}  // namespace

std::span<const Command> train_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
