#include "lockstep/cli/command.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "bench/data/measure_data.h"
#include "bench/driver/commands.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/data_arguments.h"
#include "lockstep/cli/suggested_words.h"

namespace lockstep::bench {
namespace {

/// The command line of `bench data`.
struct DataBenchArguments {
  cli::DataArguments data;
  DataOptions options;
  std::vector<std::string> pipelines{"tutorial", "standard", "none"};
  std::vector<int> workers;
  std::string against = "none";
  std::string json_file;
};

DataOptions to_options(const DataBenchArguments& arguments) {
  auto options = arguments.options;
  options.dataset = arguments.data.dataset;
  options.set = cli::set_options("bench data", arguments.data);
  options.works.clear();
  for (const auto& name : arguments.pipelines) {
    options.works.push_back(parse_load_work("bench data: --pipeline", name));
  }
  if (!arguments.workers.empty()) {
    options.workers.assign(arguments.workers.begin(), arguments.workers.end());
  }
  cli::check_choice("bench data: --against", arguments.against, torch_or_none());
  options.against_torch = arguments.against == "torch";
  return options;
}

}  // namespace

Command data_command(CLI::App& app) {
  const auto arguments = std::make_shared<DataBenchArguments>();
  auto* data = app.add_subcommand(
      "data", "measure the loading of data, compared with the loader of PyTorch");
  cli::set_usage(*data, "bench data [options]");
  arguments->data.dataset = "synthetic";
  cli::add_data_options(*data, arguments->data);
  data->add_option("--pipeline", arguments->pipelines,
                   "transformations: tutorial (flip, resize to 64x64, u8), standard (crop, flip, "
                   "normalize, f32) or none")
      ->check(cli::suggest(kLoadWorks))
      ->delimiter(',')
      ->type_name("LIST")
      ->capture_default_str();
  data->add_option(
          "--workers", arguments->workers,
          "numbers of worker threads, besides the thread that requests batches; each number is "
          "measured [number of cores minus one]")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024))
      ->type_name("LIST");
  data->add_option("--batch-size", arguments->options.batch_size, "number of images in a batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  data->add_option("--buffers", arguments->options.buffers,
                   "number of batches that are filled or in use at the same time")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  data->add_option("--against", arguments->against, "system to compare with: torch or none")
      ->check(cli::suggest(torch_or_none()))
      ->type_name("NAME")
      ->capture_default_str();
  add_common_options(*data, arguments->options.rounds,
                     "number of measurements of each system; each takes a quarter of a second",
                     arguments->json_file);
  return {data, [arguments](const topology::Environment& environment) {
            const auto report = measure_data(to_options(*arguments), environment);
            publish(report.to_table(), report.to_json(), arguments->json_file);
          }};
}

}  // namespace lockstep::bench
