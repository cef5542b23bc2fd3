#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

struct Command;

/// The argument that prints the JSON of this header. The generator of the man pages and of the
/// completions reads it. The help does not show the argument.
inline constexpr const char* kDescribe = "--describe=json";

/// The program and its commands for users: {"description": …, "commands": [{"name": …, "summary":
/// …}]}.
std::string describe_commands(const char* description, std::span<const Command> commands);

/// A command, its options and its subcommands.
std::string describe_app(CLI::App& app);

}  // namespace lockstep::cli
