#include "lockstep/cli/command.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "bench/driver/commands.h"
#include "bench/launch/measure_launch.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/suggested_words.h"

namespace lockstep::bench {
namespace {

/// The command line of `bench launch`.
struct LaunchArguments {
  LaunchOptions options;
  std::string against = "none";
  std::string json_file;
};

}  // namespace

Command launch_command(CLI::App& app) {
  const auto arguments = std::make_shared<LaunchArguments>();
  auto* launch = app.add_subcommand(
      "launch", "measure the start and end of processes, compared with mpirun if it is installed");
  cli::set_usage(*launch, "bench launch [options]");
  launch->add_option("--instances", arguments->options.instances, "number of processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  launch
      ->add_option(
          "--against", arguments->against,
          "another system to compare with: torch (Python ranks that connect over Gloo) or none")
      ->check(cli::suggest(torch_or_none()))
      ->type_name("NAME")
      ->capture_default_str();
  add_common_options(*launch, arguments->options.rounds, "number of measurements of each system",
                     arguments->json_file);
  return {launch, [arguments](const topology::Environment& environment) {
            auto options = arguments->options;
            cli::check_choice("bench launch: --against", arguments->against, torch_or_none());
            if (arguments->against == "torch") options.torch = find_launch_peer(environment);
            const auto report = measure_launch(options, environment);
            publish(report.to_table(), report.to_json(), arguments->json_file);
          }};
}

}  // namespace lockstep::bench
