#include <array>

#include "lockstep/cli/command.h"
#include "lockstep/cli/hand_on.h"
#include "lockstep/cli/installed_programs.h"

namespace lockstep::cli {
namespace {

[[noreturn]] void hand_on_to(const char* program, const char* command,
                             const Invocation& invocation) {
  auto arguments = invocation.arguments;
  arguments.insert(arguments.begin(), command);
  hand_on(program, arguments, invocation.environment);
}

int data_elsewhere(const Invocation& invocation) {
  hand_on_to("lockstep-data", "data", invocation);
}

int diff_elsewhere(const Invocation& invocation) {
  hand_on_to("lockstep-data", "diff", invocation);
}

int bench_elsewhere(const Invocation& invocation) {
  constexpr const char* kProgram = "lockstep-bench";
  // Not every build and installation has the benchmarks.
  program_beside(kProgram, "run 'make build', or install the Debian package lockstep-bench");
  hand_on(kProgram, invocation.arguments, invocation.environment);
}

int dashboard_elsewhere(const Invocation& invocation) {
  hand_on_to("lockstep-dashboard", "dashboard", invocation);
}

int model_elsewhere(const Invocation& invocation) {
  hand_on_to("lockstep-train", "model", invocation);
}

constexpr std::array kCommands{
    Command{"run", "start a program in many instances and watch over them", run},
    Command{"train", "train a network, alone or in many instances", train_elsewhere},
    Command{"eval", "evaluate weights: accuracy, classes, confusion matrix", eval_elsewhere},
    Command{"plan", "show what a training would decide, without training", plan_elsewhere},
    Command{"data", "data sets: what they hold, and packs of them", data_elsewhere},
    Command{"model", "networks: what they are made of, and files of their weights",
            model_elsewhere},
    Command{"diff", "where two runs or two weight files differ", diff_elsewhere},
    Command{"bench", "measure this machine: launch, comm, data, train, pipeline", bench_elsewhere},
    Command{"monitor", "the devices of this machine, and the jobs on them", monitor},
    Command{"dashboard", "the same in a browser, with curves and events", dashboard_elsewhere},
    Command{"doctor", "what this build and this machine offer", doctor},
    Command{"version", "print the version", version},
    // What the launcher starts on each of several hosts: nobody's to call.
    Command{"agent", nullptr, agent},
};

}  // namespace

std::span<const Command> main_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
