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
    Command{"run", "start any program in many instances", run},
    Command{"train", "train a network", train_elsewhere},
    Command{"eval", "evaluate weights or a checkpoint", eval_elsewhere},
    Command{"plan", "show the plan of a training, without training", plan_elsewhere},
    Command{"data", "show or pack datasets", data_elsewhere},
    Command{"model", "show networks and their weight files", model_elsewhere},
    Command{"diff", "find the first difference between two runs or two weight files",
            diff_elsewhere},
    Command{"bench", "measure this machine", bench_elsewhere},
    Command{"monitor", "show devices and jobs in the terminal", monitor},
    Command{"dashboard", "show jobs in a browser", dashboard_elsewhere},
    Command{"doctor", "show the optional parts of the build and of the machine", doctor},
    Command{"version", "print the version", version},
    // The launcher starts this command on each host of a job. Users do not call it.
    Command{"agent", nullptr, agent},
};

}  // namespace

std::span<const Command> main_commands() {
  return kCommands;
}

}  // namespace lockstep::cli
