#include "lockstep/cli/command.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/cli/describe_app.h"

namespace lockstep::cli {
namespace {

constexpr const char* kPurpose = "Distributed data-parallel training for C++ on libtorch.";

std::string overview(std::span<const Command> commands) {
  auto text = fmt::format("{}\n\nUsage: lockstep COMMAND [options]\n\nCommands:\n", kPurpose);
  for (const auto& command : commands) {
    if (command.summary == nullptr) continue;
    text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  }
  return text + "\n'lockstep COMMAND --help' shows the options of a command.\n";
}

Command find_command(std::span<const Command> commands, const std::string& name) {
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const Command& command) { return command.name == name; });
  if (found != commands.end()) return *found;
  std::vector<std::string> names;
  for (const auto& command : commands) {
    if (command.summary != nullptr) names.emplace_back(command.name);
  }
  const auto meant = closest(name, names);
  throw Error(
      ErrorKind::Options,
      fmt::format("expected one of the commands {}, found '{}'", fmt::join(names, ", "), name),
      meant ? "lockstep " + *meant : "lockstep --help");
}

int run_command(std::span<const Command> commands, std::vector<std::string> arguments,
                topology::Environment environment) {
  if (arguments.empty()) {
    std::fputs(overview(commands).c_str(), stderr);
    return exit_code(ErrorKind::Options);
  }
  const auto name = arguments.front();
  arguments.erase(arguments.begin());
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(overview(commands).c_str(), stdout);
    return 0;
  }
  if (name == kDescribe) {
    std::fputs(describe_commands(kPurpose, commands).c_str(), stdout);
    return 0;
  }
  const auto command = find_command(commands, name == "--version" ? "version" : name);
  return command.run({std::move(arguments), std::move(environment)});
}

class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override {
    return fmt::format("Usage: lockstep {}\n", usage_);
  }
  const std::string& usage() const noexcept { return usage_; }

 private:
  std::string usage_;
};

/// The subcommand that the arguments led to, or the command itself.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

/// "bench launch".
std::string full_name(const CLI::App& app) {
  const auto* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

}  // namespace

void set_usage(CLI::App& app, const std::string& usage) {
  auto formatter = std::make_shared<UsageFormatter>(usage);
  formatter->column_width(34);
  app.formatter(std::move(formatter));
}

std::string usage_of(const CLI::App& app) {
  const auto* formatter = dynamic_cast<const UsageFormatter*>(app.get_formatter().get());
  return formatter == nullptr ? full_name(app) + " [options]" : formatter->usage();
}

int report_errors(const std::function<int()>& function) {
  try {
    return function();
  } catch (const Error& error) {
    std::fputs(describe(error).c_str(), stderr);
    return exit_code(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return exit_code(ErrorKind::Io);
  } catch (const std::system_error& error) {  // threads, as a rule
    fmt::print(stderr, "lockstep: the system refused: {}\n", error.what());
    return exit_code(ErrorKind::Unavailable);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "lockstep: there is not enough memory for this\n");
    return exit_code(ErrorKind::Unavailable);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep: a mistake of ours: {}\n", error.what());
    return exit_code(ErrorKind::Bug);
  }
}

int dispatch(std::span<const Command> commands, std::vector<std::string> arguments,
             topology::Environment environment) {
  return report_errors([&] {
    const int code = run_command(commands, std::move(arguments), std::move(environment));
    if (code == 0 && std::fflush(stdout) != 0) throw io_error("standard output");
    return code;
  });
}

Parsed parse(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments.front() == kDescribe) {
    std::fputs(describe_app(app).c_str(), stdout);
    return Parsed::HelpShown;
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return Parsed::GoOn;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return Parsed::HelpShown;
  } catch (const CLI::ExtrasError&) {
    refuse_unknown_option(innermost(app), app.remaining(true).front());
  } catch (const CLI::ParseError& error) {
    const auto name = full_name(innermost(app));
    throw Error(ErrorKind::Options, fmt::format("{}: {}", name, error.what()),
                fmt::format("lockstep {} --help", name));
  }
}

void refuse_unknown_option(const CLI::App& app, const std::string& option) {
  std::vector<std::string> names;
  for (const auto* known : app.get_options()) {
    for (const auto& name : known->get_lnames()) names.push_back("--" + name);
  }
  const auto meant = closest(option.substr(0, option.find('=')), names);
  throw Error(ErrorKind::Options, fmt::format("{}: unknown option '{}'", full_name(app), option),
              meant ? *meant : fmt::format("lockstep {} --help", full_name(app)));
}

}  // namespace lockstep::cli
