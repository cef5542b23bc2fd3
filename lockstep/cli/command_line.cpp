#include "lockstep/cli/command_line.h"

#include <algorithm>
#include <string_view>

#include "lockstep/launch/engine/engine.h"
#include "lockstep/topology/identity.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kLongestCommandLine = std::size_t{16} * 1024;

/// "NAME=..." for "NAME=VALUE".
std::string without_value(const std::string& assignment) {
  const auto equals = assignment.find('=');
  return equals == std::string::npos ? assignment : assignment.substr(0, equals + 1) + "...";
}

}  // namespace

std::string command_text(const std::string& command, const std::vector<std::string>& arguments) {
  auto text = "lockstep " + command;
  for (const auto& argument : arguments) text += " " + launch::quote_word(argument);
  return text;
}

std::vector<std::string> without_values_of_env(std::vector<std::string> arguments,
                                               std::size_t count) {
  constexpr std::string_view kOption = "--env";
  constexpr std::string_view kOptionWithValue = "--env=";
  for (std::size_t i = 0; i < std::min(count, arguments.size()); ++i) {
    auto& argument = arguments[i];
    if (argument.starts_with(kOptionWithValue)) {
      argument =
          std::string(kOptionWithValue) + without_value(argument.substr(kOptionWithValue.size()));
    } else if (i > 0 && arguments[i - 1] == kOption) {
      argument = without_value(argument);
    }
  }
  return arguments;
}

void set_command_variable(const std::string& command_line, topology::Environment& environment) {
  if (command_line.size() > kLongestCommandLine) return;
  environment.set_if_absent(topology::kCommandVariable, command_line);
}

}  // namespace lockstep::cli
