#pragma once

#include <string>
#include <vector>

/// The man pages and the completions of shells, made from what `lockstep COMMAND --describe=json`
/// prints.
namespace lockstep::manual {

struct Option {
  std::vector<std::string> names;  ///< "-H", "--host"; the name of a positional argument
  std::string group{};
  std::string description;
  bool is_positional = false;
  bool takes_value = false;
  bool value_is_optional = false;
  bool is_repeatable = false;
  bool is_list = false;              ///< values with commas between them
  std::string value{};               ///< "FILE"
  std::string range{};               ///< "INT in [1 - 1024]"; often empty
  std::vector<std::string> words{};  ///< accepted words, and patterns such as "*.pt" for files
  std::string default_value{};
};

struct Command {
  std::string path;  ///< "data pack"; empty for lockstep itself
  std::string summary;
  std::string usage;  ///< the text behind "lockstep "
  std::string description;
  std::string footer;
  bool starts_program = false;  ///< the arguments behind the options are another command line
  std::vector<Option> options;
  std::vector<Command> commands;
};

/// Asks a built `lockstep` for all of its commands. Throws `std::runtime_error` if one fails.
Command read_commands(const std::string& lockstep);

/// Splits the words of an option into plain words and patterns of files.
std::vector<std::string> plain_words(const Option& option);
/// "": none, "*": every file, "*/": folders, "*.pt": such files.
std::string file_pattern(const Option& option);

/// Calls `visit` for a command and for all commands below it, parents first.
template <typename Visit>
void for_each_command(const Command& command, const Visit& visit) {
  visit(command);
  for (const auto& each : command.commands) for_each_command(each, visit);
}

}  // namespace lockstep::manual
