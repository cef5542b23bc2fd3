#include "tools/manual/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace lockstep::manual {
namespace {

/// Escapes text so that roff interprets none of it as a command.
std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const bool begins_line = escaped.empty() || escaped.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string bold(const std::string& text) {
  return "\\fB" + escape(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return "\\fI" + escape(text) + "\\fR";
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string capitalized(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(text.front()));
  return text;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

/// Lines that are shown as they are.
std::string example(const std::string& lines) {
  std::string text = ".EX\n";
  for (const auto& line : split(lines, "\n")) {
    text += escape(line.substr(std::min(line.find_first_not_of(' '), line.size()))) + "\n";
  }
  return text + ".EE\n";
}

/// The footer of the help, with its paragraphs in the sections of a man page.
struct Footer {
  std::string description;
  std::string exit_status;
  std::string examples;
};

void append(std::string& section, const std::string& paragraph) {
  if (!section.empty()) section += ".PP\n";
  section += paragraph;
}

Footer read_footer(const std::string& footer) {
  const std::string exit_code = "Exit code: ";
  const std::string example_of = "Example: ";
  Footer found;
  for (const auto& paragraph : split(footer, "\n\n")) {
    if (paragraph.starts_with(exit_code)) {
      append(found.exit_status, escape(capitalized(paragraph.substr(exit_code.size()))) + "\n");
    } else if (paragraph.starts_with(example_of)) {
      append(found.examples, example(paragraph.substr(example_of.size())));
    } else if (paragraph.starts_with("  ")) {
      append(found.examples, example(paragraph));
    } else {
      append(found.description, escape(paragraph) + "\n");
    }
  }
  return found;
}

/// "--host LIST" or "--dashboard [PORT]".
std::string tag(const Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.names) {
    names.push_back(option.is_positional ? italic(name) : bold(name));
  }
  auto text = fmt::format("{}", fmt::join(names, ", "));
  if (!option.takes_value || option.is_positional) return text;
  return text + (option.value_is_optional ? " [" + italic(option.value) + "]"
                                          : " " + italic(option.value));
}

std::string body(const Option& option) {
  auto text = option.description.empty() ? "print this help" : option.description;
  const auto words = plain_words(option);
  const auto is_named = [&](const auto& word) {
    return option.description.find(word) != std::string::npos;
  };
  if (!std::ranges::all_of(words, is_named))
    text += fmt::format("; one of {}", fmt::join(words, ", "));
  if (!option.range.empty()) text += fmt::format(" ({})", option.range);
  if (!option.default_value.empty()) text += fmt::format(" (default: {})", option.default_value);
  return escape(text);
}

std::string option_list(const std::vector<Option>& options, const std::string& heading) {
  std::string text;
  std::vector<std::string> groups;
  for (const auto& option : options) {
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  }
  for (const auto& group : groups) {
    // A single group needs no heading of its own.
    if (groups.size() > 1) text += fmt::format(".SS \"{}\"\n", group);
    for (const auto& option : options) {
      if (option.group == group) text += fmt::format(".TP\n{}\n{}\n", tag(option), body(option));
    }
  }
  return text.empty() ? text : fmt::format(".SH {}\n{}", heading, text);
}

std::string options_of(const Command& command) {
  std::vector<Option> arguments;
  std::vector<Option> options;
  for (const auto& option : command.options) {
    (option.is_positional ? arguments : options).push_back(option);
  }
  return option_list(arguments, "ARGUMENTS") + option_list(options, "OPTIONS");
}

std::string commands_of(const Command& command) {
  if (command.commands.empty()) return {};
  std::string text = ".SH COMMANDS\n";
  for (const auto& each : command.commands) {
    text += fmt::format(".TP\n{}(1)\n{}\n", bold(page_name(each)), escape(each.summary));
  }
  return text;
}

std::string synopsis(const Command& command) {
  const auto size = command.usage.starts_with(command.path) ? command.path.size() : 0;
  const auto program = "lockstep" + (size == 0 ? "" : " " + command.path);
  const auto rest = command.usage.substr(size);
  return fmt::format("{}{}{}\n", bold(program), rest.starts_with(' ') ? "" : " ", escape(rest));
}

std::string see_also(const Command& command) {
  const auto end = command.path.rfind(' ');
  if (command.path.empty()) return "The option \\fB\\-\\-help\\fR of each command.\n";
  const auto parent = end == std::string::npos ? "" : command.path.substr(0, end);
  auto text = bold("lockstep") + "(1)";
  if (!parent.empty()) text += ", " + bold("lockstep-" + parent) + "(1)";
  return text + "\n";
}

}  // namespace

std::string page_name(const Command& command) {
  auto name = "lockstep" + (command.path.empty() ? "" : " " + command.path);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const Command& command, const std::string& version) {
  const auto name = page_name(command);
  const auto footer = read_footer(command.footer);
  auto text = fmt::format(".TH {} 1 \"\" \"lockstep {}\" \"User Commands\"\n", escape(upper(name)),
                          version);
  text += fmt::format(".SH NAME\n{} \\- {}\n", escape(name), escape(command.summary));
  text += ".SH SYNOPSIS\n" + synopsis(command);
  text += ".SH DESCRIPTION\n" + escape(capitalized(command.description)) + "\n";
  if (!footer.description.empty()) text += ".PP\n" + footer.description;
  text += commands_of(command) + options_of(command);
  if (!footer.exit_status.empty()) text += ".SH \"EXIT STATUS\"\n" + footer.exit_status;
  if (!footer.examples.empty()) text += ".SH EXAMPLES\n" + footer.examples;
  return text + ".SH \"SEE ALSO\"\n" + see_also(command);
}

}  // namespace lockstep::manual
