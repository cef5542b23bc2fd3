#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "bench/driver/commands.h"
#include "bench/driver/programs.h"
#include "bench/train/pipeline.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/installed_programs.h"
#include "lockstep/cli/suggested_words.h"
#include "lockstep/nn/zoo/network_names.h"

namespace lockstep::bench {
namespace {

/// The command line of `bench pipeline`.
struct PipelineArguments {
  PipelineOptions options;
  std::string json_file;
};

}  // namespace

Command pipeline_command(CLI::App& app) {
  const auto arguments = std::make_shared<PipelineArguments>();
  auto& to = arguments->options;
  auto* pipeline = app.add_subcommand(
      "pipeline",
      "measure the training of a network over several devices, with each pipeline schedule");
  cli::set_usage(*pipeline, "bench pipeline [options]");
  pipeline->add_option("--model", to.model, fmt::format("{}", fmt::join(nn::kNetworkNames, ", ")))
      ->check(cli::suggest(nn::kNetworkNames))
      ->type_name("NAME")
      ->capture_default_str();
  pipeline->add_option("--image-size", to.image_size, "height and width of the synthetic images")
      ->type_name("HxW")
      ->capture_default_str();
  const auto add = [&](const char* name, auto& value, int least, const char* description) {
    pipeline->add_option(name, value, description)
        ->check(CLI::Range(least, 1 << 20))
        ->capture_default_str();
  };
  add("--batch-size", to.batch_size, 1, "number of images in a micro-batch");
  add("--gradient-accumulation", to.gradient_accumulation, 1, "number of micro-batches in a step");
  add("--devices-per-replica", to.devices_per_replica, 2,
      "number of stages, each on a device with one thread");
  add("--steps", to.steps, 2, "number of optimizer steps of a job; the first step is the warm-up");
  add_common_options(*pipeline, to.rounds, "number of jobs for each schedule",
                     arguments->json_file);
  return {pipeline, [arguments](const topology::Environment& environment) {
            check(arguments->options);
            cli::program_beside("lockstep-train");  // the jobs need it
            const auto report =
                measure_pipeline(arguments->options, lockstep_program(), environment);
            publish(report.to_table(), report.to_json(), arguments->json_file);
          }};
}

}  // namespace lockstep::bench
