#include "lockstep/cli/describe_app.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "lockstep/base/strings.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/suggested_words.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The words of `suggest()` and of `CLI::IsMember`. Both are found only through the validators.
std::vector<std::string> words_of(CLI::Option& option) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view list, char separator) {
    for (const auto word : split(list, separator)) words.emplace_back(word);
  };
  try {
    for (int i = 0;; ++i) {
      const auto* validator = option.get_validator(i);
      const auto name = validator->get_name();
      const auto description = validator->get_description();
      if (name.starts_with(kSuggestedWords)) {
        add(std::string_view(name).substr(kSuggestedWords.size()), ' ');
      } else if (description.starts_with('{') && description.ends_with('}')) {  // IsMember
        add(std::string_view(description).substr(1, description.size() - 2), ',');
      }
    }
  } catch (const CLI::OptionNotFound&) {  // CLI11 does not tell the number of validators.
  }
  return words;
}

/// What the help shows for the value: "FILE", "[PORT]", "INT:INT in [1 - 1024]".
std::string value_of(const CLI::Option& option) {
  return option.get_option_text().empty() ? option.get_type_name() : option.get_option_text();
}

Json describe_option(CLI::Option& option) {
  Json names = Json::array();
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  const bool is_positional = names.empty();
  if (is_positional) names.push_back(option.get_name(true));
  const bool takes_value = option.get_expected_max() > 0;
  const auto value = value_of(option);
  return {
      {"names", names},
      {"group", option.get_group()},
      {"description", option.get_description()},
      {"positional", is_positional},
      {"takes_value", takes_value},
      {"value_is_optional", takes_value && option.get_expected_min() == 0},
      {"value", value.substr(0, value.find(':'))},
      {"range", value.find(" in ") == std::string::npos ? "" : value.substr(value.find(':') + 1)},
      {"is_repeatable", option.get_items_expected_max() > 1},
      {"is_list", option.get_delimiter() == ','},
      {"words", words_of(option)},
      {"default", option.get_expected_min() == 0 ? "" : option.get_default_str()}};
}

Json describe_one(CLI::App& app) {
  Json options = Json::array();
  for (auto* option : app.get_options()) {
    if (!option->get_group().empty()) options.push_back(describe_option(*option));
  }
  Json commands = Json::array();
  for (auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands.push_back(describe_one(*command));
  }
  return {{"name", app.get_name()},
          {"usage", usage_of(app)},
          {"description", app.get_description()},
          {"footer", app.get_footer()},
          {"starts_program", app.get_prefix_command()},
          {"options", options},
          {"commands", commands}};
}

}  // namespace

std::string describe_commands(const char* description, std::span<const Command> commands) {
  Json all = Json::array();
  for (const auto& command : commands) {
    if (command.summary == nullptr) continue;
    all.push_back({{"name", command.name}, {"summary", command.summary}});
  }
  return Json({{"description", description}, {"commands", all}}).dump(1) + "\n";
}

std::string describe_app(CLI::App& app) {
  return describe_one(app).dump(1) + "\n";
}

}  // namespace lockstep::cli
