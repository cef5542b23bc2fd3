#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/topology/environment.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// What a subcommand is called with.
struct Invocation {
  std::vector<std::string> arguments;  ///< behind the subcommand's name
  topology::Environment environment;
};

/// A subcommand of `lockstep`: one file of this folder each.
struct Command {
  const char* name;
  const char* summary;                       ///< none: the command is not for users
  int (*run)(const Invocation& invocation);  ///< returns the exit code; may throw `Error`
};

/// Runs a function and returns its exit code. Errors are printed and become their kind's exit code;
/// nothing is thrown.
int report_errors(const std::function<int()>& function);

/// Runs the subcommand that the arguments name. Prints errors, returns the exit code, never throws.
int dispatch(std::span<const Command> commands, std::vector<std::string> arguments,
             topology::Environment environment);

/// The subcommands of `lockstep`.
std::span<const Command> main_commands();
/// Those of `lockstep-data`, which `lockstep` hands on to it.
std::span<const Command> data_commands();
/// Those of `lockstep-dashboard`.
std::span<const Command> dashboard_commands();
/// Those of `lockstep-train`.
std::span<const Command> train_commands();

/// The line of the help that shows how the subcommand is called, behind "lockstep ".
void set_usage(CLI::App& app, const std::string& usage);
/// The argument of `set_usage`.
std::string usage_of(const CLI::App& app);

enum class Parsed { GoOn, HelpShown };

/// Parses a subcommand's arguments. Prints the help where that was asked for.
/// Throws `Options` with the parser's complaint, and with the name that a misspelt option probably
/// meant.
Parsed parse(CLI::App& app, const std::vector<std::string>& arguments);

/// Refuses an option that the subcommand does not know.
[[noreturn]] void refuse_unknown_option(const CLI::App& app, const std::string& option);

int run(const Invocation& invocation);
int agent(const Invocation& invocation);
/// Checks everything that can be checked without libtorch, then starts lockstep-train.
int train_elsewhere(const Invocation& invocation);
int train_here(const Invocation& invocation);
int eval_elsewhere(const Invocation& invocation);
int eval_here(const Invocation& invocation);
/// The same for what a training would decide.
int plan_elsewhere(const Invocation& invocation);
int plan_here(const Invocation& invocation);
int data_command(const Invocation& invocation);
int diff_command(const Invocation& invocation);
int model_command(const Invocation& invocation);
int monitor(const Invocation& invocation);
int dashboard_here(const Invocation& invocation);
int doctor(const Invocation& invocation);
int version(const Invocation& invocation);

}  // namespace lockstep::cli
