#include "bench/driver/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"

namespace lockstep::bench {
namespace {

/// Becomes a worker if the arguments name one. Workers do not parse the options of the commands:
/// the time of their start is measured.
bool run_worker(const std::vector<std::string>& arguments) {
  const auto is = [&](const char* name, std::size_t count) {
    return arguments.size() == 1 + count && arguments.front() == name;
  };
  if (is("meet", 0)) {
    meet();
  } else if (is("comm-worker", 1)) {
    comm_worker(arguments[1]);
  } else if (is("update-worker", 2)) {
    update_worker(arguments[1], std::stoi(arguments[2]));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> torch_or_none() {
  return {"torch", "none"};
}

void add_json_option(CLI::App& command, std::string& file) {
  command.add_option("--json", file, "also write the results as JSON")->type_name("FILE");
}

void add_common_options(CLI::App& command, int& rounds, const std::string& what_a_round_is,
                        std::string& json_file) {
  command.add_option("--rounds", rounds, what_a_round_is)
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  add_json_option(command, json_file);
}

void publish(const std::string& table, const std::string& json, const std::string& json_file) {
  fmt::print("{}", table);
  if (!json_file.empty()) write_file(json_file, json);
}

void run_bench(const std::vector<std::string>& arguments,
               const topology::Environment& environment) {
  if (run_worker(arguments)) return;
  CLI::App app("Measures this machine, and compares lockstep with other installed systems.",
               "bench");
  cli::set_usage(app, "bench launch|comm|data|train|pipeline [options]");
  app.require_subcommand(1);
  const std::vector<Command> commands{launch_command(app), comm_command(app), data_command(app),
                                      train_command(app), pipeline_command(app)};
  if (cli::parse(app, arguments) == cli::Parsed::HelpShown) return;
  const auto chosen = std::ranges::find_if(
      commands, [](const Command& command) { return command.options->parsed(); });
  chosen->run(environment);
}

}  // namespace lockstep::bench
