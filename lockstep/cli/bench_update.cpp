#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/cli/command.h"
#include "lockstep/comm/world.h"
#include "lockstep/train/bench/update_times.h"

namespace lockstep::cli {

int bench_update_command(const Invocation& invocation) {
  CLI::App app("One instance of what 'lockstep bench train --work update' measures.",
               "bench-update");
  std::string network = "resnet50";
  int rounds = 10;
  app.add_option("--parameters", network, "those of a network of the zoo")->capture_default_str();
  app.add_option("--rounds", rounds, "steps that are measured")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  const auto world = World::init();
  const auto seconds = train::time_updates(world, network, rounds);
  if (world.instance() == 0) {
    fmt::print("{{\"seconds\": [{:.9f}]}}\n", fmt::join(seconds, ", "));
  }
  return 0;
}

}  // namespace lockstep::cli
