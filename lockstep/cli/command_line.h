#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// A command of lockstep as a user types it in a shell.
std::string command_text(const std::string& command, const std::vector<std::string>& arguments);

/// The arguments of `lockstep run` with "..." for each value of `--env`, which can be a secret.
/// Only the first `count` arguments are options of the launcher. The others belong to the program.
std::vector<std::string> without_values_of_env(std::vector<std::string> arguments,
                                               std::size_t count);

/// Sets LOCKSTEP_COMMAND to the command line of the launcher, so that a report can show it. Keeps
/// the value that an outer launcher has set. Does nothing for a very long command line, because the
/// kernel limits the size of a variable.
void set_command_variable(const std::string& command_line, topology::Environment& environment);

}  // namespace lockstep::cli
