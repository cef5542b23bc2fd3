#include "tools/manual/command_tree.h"

#include <nlohmann/json.hpp>
#include <stdio.h>
#include <sys/wait.h>

#include <array>
#include <cctype>
#include <memory>
#include <stdexcept>

namespace lockstep::manual {
namespace {

using Json = nlohmann::json;

/// The output of a shell command.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run: " + command);
  std::string text;
  std::array<char, 4096> block{};
  while (const auto size = std::fread(block.data(), 1, block.size(), pipe)) {
    text.append(block.data(), size);
  }
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return text;
}

Json describe(const std::string& lockstep, const std::string& command) {
  return Json::parse(output_of("'" + lockstep + "' " + command + " --describe=json"));
}

std::string without_brackets(std::string value) {
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  return value;
}

Option read_option(const Json& json) {
  return {.names = json.at("names"),
          .group = json.at("group"),
          .description = json.at("description"),
          .is_positional = json.at("positional"),
          .takes_value = json.at("takes_value"),
          .value_is_optional = json.at("value_is_optional"),
          .is_repeatable = json.at("is_repeatable"),
          .is_list = json.at("is_list"),
          .value = without_brackets(json.at("value")),
          .range = json.at("range"),
          .words = json.at("words"),
          .default_value = json.at("default")};
}

std::string without_period(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

Command read_command(const Json& json, const std::string& path, const std::string& summary) {
  Command command{.path = path,
                  .summary = summary,
                  .usage = json.at("usage"),
                  .description = json.at("description"),
                  .footer = json.at("footer"),
                  .starts_program = json.at("starts_program"),
                  .options = {},
                  .commands = {}};
  for (const auto& option : json.at("options")) command.options.push_back(read_option(option));
  for (const auto& each : json.at("commands")) {
    const std::string name = each.at("name");
    command.commands.push_back(
        read_command(each, path + " " + name, without_period(each.at("description"))));
  }
  return command;
}

bool is_pattern(const std::string& word) {
  return word.starts_with('*');
}

}  // namespace

Command read_commands(const std::string& lockstep) {
  const auto all = describe(lockstep, "");
  auto summary = without_period(all.at("description"));
  summary.front() = static_cast<char>(std::tolower(summary.front()));
  Command top{.path = "",
              .summary = summary,
              .usage = "COMMAND [options]",
              .description = all.at("description"),
              .footer = "",
              .starts_program = false,
              .options = {{.names = {"-h", "--help"}, .description = "print the commands"},
                          {.names = {"--version"}, .description = "print the version"}},
              .commands = {}};
  for (const auto& each : all.at("commands")) {
    const std::string name = each.at("name");
    top.commands.push_back(read_command(describe(lockstep, name), name, each.at("summary")));
  }
  return top;
}

std::vector<std::string> plain_words(const Option& option) {
  std::vector<std::string> words;
  for (const auto& word : option.words) {
    if (!is_pattern(word)) words.push_back(word);
  }
  return words;
}

std::string file_pattern(const Option& option) {
  for (const auto& word : option.words) {
    if (is_pattern(word)) return word;
  }
  if (option.value == "FILE" || option.value == "PATH") return "*";
  return option.value == "DIR" ? "*/" : "";
}

}  // namespace lockstep::manual
