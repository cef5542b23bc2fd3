#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/manual/completion.h"

namespace lockstep::manual {
namespace {

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// A word of the shell.
std::string quoted(const std::string& text) {
  return "'" + replace_all(text, "'", "'\\''") + "'";
}

std::string escaped_brackets(const std::string& text) {
  return replace_all(replace_all(text, "[", "\\["), "]", "\\]");
}

/// "_lockstep_data_pack".
std::string function_name(const Command& command) {
  auto name = "_lockstep" + (command.path.empty() ? "" : "_" + command.path);
  std::ranges::replace(name, ' ', '_');
  std::ranges::replace(name, '-', '_');
  return name;
}

constexpr const char* kWordsOrFiles =
    R"(# Completes the words behind $1, and files of the pattern $1.
_lockstep_words_or_files() {
  local expl
  _wanted words expl word compadd -- "${@:2}"
  if [[ $1 == '*/' ]]; then _files -/; else _files -g "$1"; fi
}

)";

/// The shell's action that completes files of a pattern.
std::string file_action(const std::string& pattern) {
  if (pattern.empty()) return {};
  if (pattern == "*") return "_files";
  if (pattern == "*/") return "_files -/";
  return fmt::format("_files -g \"{}\"", pattern);
}

std::string action_of(const Option& option) {
  const auto words = plain_words(option);
  const auto files = file_action(file_pattern(option));
  if (words.empty()) return files.empty() ? " " : files;
  if (option.is_list) return fmt::format("_values -s , value {}", fmt::join(words, " "));
  if (files.empty()) return fmt::format("({})", fmt::join(words, " "));
  return fmt::format(" _lockstep_words_or_files \"{}\" {}", file_pattern(option),
                     fmt::join(words, " "));
}

std::string value_of(const Option& option) {
  if (!option.takes_value) return {};
  return fmt::format("{}:{}:{}", option.value_is_optional ? ":" : "",
                     replace_all(option.value, ":", "\\:"), action_of(option));
}

/// One argument of _arguments for each name.
std::string option_lines(const Option& option) {
  if (option.is_positional) {
    return "    " + quoted(fmt::format(":{}:{}", option.names.front(), action_of(option))) +
           " \\\n";
  }
  std::string text;
  const auto others =
      option.is_repeatable ? "*" : fmt::format("({})", fmt::join(option.names, " "));
  for (const auto& name : option.names) {
    const bool is_long = name.starts_with("--");
    const auto* mark = !option.takes_value        ? ""
                       : !is_long                 ? "+"
                       : option.value_is_optional ? "=-"
                                                  : "=";
    text += "    " +
            quoted(fmt::format("{}{}{}[{}]{}", others, name, mark,
                               escaped_brackets(option.description), value_of(option))) +
            " \\\n";
  }
  return text;
}

std::string function_of(const Command& command) {
  auto text = fmt::format("{}() {{\n", function_name(command));
  std::string options;
  for (const auto& option : command.options) options += option_lines(option);
  if (command.commands.empty()) {
    text += "  _arguments -s \\\n" + options;
    return text +
           (command.starts_program ? "    '(-)1:program:_command_names -e' '*::arguments:_normal'\n"
                                   : "    && return\n") +
           "}\n\n";
  }
  text +=
      "  local curcontext=$curcontext context state state_descr line\n  local -A opt_args\n"
      "  local -a commands=(\n";
  std::string cases;
  for (const auto& each : command.commands) {
    const auto name = each.path.substr(each.path.rfind(' ') + 1);
    text += "    " + quoted(name + ":" + each.summary) + "\n";
    cases += fmt::format("        {}) {} ;;\n", name, function_name(each));
  }
  return text + "  )\n  _arguments -s -C \\\n" + options +
         "    '1:command:->command' '*::argument:->argument' && return\n"
         "  case $state in\n"
         "    command) _describe command commands ;;\n"
         "    argument)\n      case $words[1] in\n" +
         cases + "      esac\n      ;;\n  esac\n}\n\n";
}

}  // namespace

std::string zsh_completion(const Command& top) {
  std::string text =
      "#compdef lockstep\n"
      "# Completion of lockstep for zsh. Generated from the options of lockstep: do not edit.\n\n";
  text += kWordsOrFiles;
  for_each_command(top, [&](const Command& command) { text += function_of(command); });
  return text + "_lockstep \"$@\"\n";
}

}  // namespace lockstep::manual
