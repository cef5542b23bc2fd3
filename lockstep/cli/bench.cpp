#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lockstep/base/file.h"
#include "lockstep/cli/bench_launch.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

int bench(const Invocation& invocation) {
  CLI::App app("Measures this machine, beside the peers that are installed.", "bench");
  set_usage(app, "bench launch [options]");
  app.require_subcommand(1);
  std::string json_file;
  BenchLaunchOptions options;
  auto* launch = app.add_subcommand("launch", "start empty processes and see them end");
  launch->add_option("--instances", options.instances, "processes to start")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  launch->add_option("--rounds", options.rounds, "measurements of each")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  launch->add_option("--json", json_file, "also write the results to a file")->type_name("FILE");
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;

  const auto report = bench_launch(options, invocation.environment);
  fmt::print("{}", report.to_table());
  if (!json_file.empty()) write_file(json_file, report.to_json());
  return 0;
}

}  // namespace lockstep::cli
