#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/bench_data.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_arguments.h"

namespace lockstep::cli {
namespace {

/// The arguments of `bench data` as they are written.
struct Arguments {
  DataArguments data;
  BenchDataOptions options;
  std::vector<std::string> pipelines{"tutorial", "standard", "none"};
  std::vector<int> workers;
  std::string against = "none";
  std::string json_file;
};

CLI::App* add_data(CLI::App& app, Arguments& to) {
  auto* data = app.add_subcommand("data", "load data, beside PyTorch's loader");
  set_usage(*data, "bench data [options]");
  to.data.dataset = "synthetic";
  add_data_options(*data, to.data);
  data->add_option("--pipeline", to.pipelines,
                   "tutorial (flip, resize 64x64, u8), standard (crop, flip, normalized f32), none")
      ->delimiter(',')
      ->type_name("LIST")
      ->capture_default_str();
  data->add_option("--workers", to.workers,
                   "threads beside the one that asks for batches; each number is measured "
                   "[one less than there are cores]")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024))
      ->type_name("LIST");
  data->add_option("--batch-size", to.options.batch_size, "pictures of a batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  data->add_option("--buffers", to.options.buffers, "batches that are filled or held at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  data->add_option("--rounds", to.options.rounds, "measurements of each, a quarter second long")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  data->add_option("--against", to.against, "torch, or none for lockstep alone")
      ->type_name("NAME")
      ->capture_default_str();
  data->add_option("--json", to.json_file, "also write the results to a file")->type_name("FILE");
  return data;
}

BenchDataOptions decide(const Arguments& written) {
  auto options = written.options;
  options.dataset = written.data.dataset;
  options.set = set_options("bench data", written.data);
  options.works.clear();
  for (const auto& name : written.pipelines) {
    options.works.push_back(parse_load_work("bench data: --pipeline", name));
  }
  if (!written.workers.empty()) {
    options.workers.assign(written.workers.begin(), written.workers.end());
  }
  const std::vector<std::string> peers{"torch", "none"};
  check_choice("bench data: --against", written.against, peers);
  options.against_torch = written.against == "torch";
  return options;
}

}  // namespace

int bench_data_command(const Invocation& invocation) {
  CLI::App app("Measures this machine, beside the peers that are installed.", "bench");
  set_usage(app, "bench data [options]");
  app.require_subcommand(1);
  Arguments arguments;
  add_data(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  const auto report = bench_data(decide(arguments), invocation.environment);
  fmt::print("{}", report.to_table());
  if (!arguments.json_file.empty()) write_file(arguments.json_file, report.to_json());
  return 0;
}

}  // namespace lockstep::cli
