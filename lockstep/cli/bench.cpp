#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/bench_comm.h"
#include "lockstep/cli/bench_launch.h"
#include "lockstep/cli/bench_pipeline.h"
#include "lockstep/cli/bench_systems.h"
#include "lockstep/cli/byte_size.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/hand_on.h"
#include "lockstep/nn/zoo/network_names.h"

namespace lockstep::cli {
namespace {

/// The arguments of `bench comm` as they are written.
struct CommArguments {
  BenchCommOptions options;
  std::string op{name_of(Collective::AllReduce)};
  std::vector<std::string> sizes{"4K", "32K", "256K", "1M", "8M", "100M"};
  std::vector<std::string> against;
};

void add_common_options(CLI::App& app, int& rounds, const std::string& what_a_round_is,
                        std::string& json_file) {
  app.add_option("--rounds", rounds, what_a_round_is)
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--json", json_file, "also write the results to a file")->type_name("FILE");
}

CLI::App* add_launch(CLI::App& app, BenchLaunchOptions& to, std::string& against,
                     std::string& json_file) {
  auto* launch = app.add_subcommand(
      "launch", "start processes and see them end, beside mpirun where it is installed");
  set_usage(*launch, "bench launch [options]");
  launch->add_option("--instances", to.instances, "processes to start")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  launch->add_option("--against", against, "torch, for Python ranks that meet over Gloo; or none")
      ->type_name("NAME")
      ->capture_default_str();
  add_common_options(*launch, to.rounds, "measurements of each", json_file);
  return launch;
}

CLI::App* add_comm(CLI::App& app, CommArguments& to, std::string& json_file) {
  auto* comm = app.add_subcommand("comm", "collectives between processes, beside Gloo and MPI");
  set_usage(*comm, "bench comm [options]");
  comm->add_option("--op", to.op, "all_reduce, reduce_scatter, all_gather or broadcast")
      ->type_name("NAME")
      ->capture_default_str();
  comm->add_option("--instances", to.options.instances, "processes; each number is measured")
      ->delimiter(',')
      ->check(CLI::Range(2, 256))
      ->type_name("LIST")
      ->capture_default_str();
  comm->add_option("--sizes", to.sizes, "bytes of the whole, as 4096, 4K, 100M or 1G")
      ->delimiter(',')
      ->type_name("LIST")
      ->capture_default_str();
  comm->add_option("--against", to.against,
                   "gloo, mpi, or none for lockstep alone [those that are built]")
      ->delimiter(',')
      ->type_name("LIST");
  add_common_options(*comm, to.options.rounds,
                     "turns of each; a slow size ends after 5 where they take long", json_file);
  return comm;
}

CLI::App* add_pipeline(CLI::App& app, BenchPipelineOptions& to, std::string& json_file) {
  auto* pipeline = app.add_subcommand(
      "pipeline", "train a network over several devices, under each schedule of its stages");
  set_usage(*pipeline, "bench pipeline [options]");
  pipeline->add_option("--model", to.model, fmt::format("{}", fmt::join(nn::kNetworkNames, ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  pipeline->add_option("--image-size", to.image_size, "of the pictures, which are made up")
      ->type_name("HxW")
      ->capture_default_str();
  const auto add = [&](const char* name, auto& value, int least, const char* description) {
    pipeline->add_option(name, value, description)
        ->check(CLI::Range(least, 1 << 20))
        ->capture_default_str();
  };
  add("--batch-size", to.batch_size, 1, "pictures of a micro-batch");
  add("--gradient-accumulation", to.gradient_accumulation, 1, "micro-batches of a step");
  add("--devices-per-replica", to.devices_per_replica, 2, "stages, each on a device of one thread");
  add("--steps", to.steps, 2, "optimizer steps of a job; the first one warms up");
  add_common_options(*pipeline, to.rounds, "jobs of each, in turn", json_file);
  return pipeline;
}

/// Not in the help: `bench launch` starts it.
CLI::App* add_meet(CLI::App& app) {
  auto* meet = app.add_subcommand("meet", "a process that 'bench launch' measures");
  meet->group("");
  return meet;
}

/// Not in the help: `bench comm` starts it.
CLI::App* add_comm_worker(CLI::App& app, std::string& folder) {
  auto* worker = app.add_subcommand("comm-worker", "a process that 'bench comm' measures");
  worker->group("");
  worker->add_option("folder", folder)->required();
  return worker;
}

Collective parse_collective(const std::string& name) {
  std::vector<std::string> names;
  for (const auto collective : kCollectives) names.emplace_back(name_of(collective));
  check_choice("bench comm: --op", name, names);
  const auto position = std::find(names.begin(), names.end(), name) - names.begin();
  return kCollectives[static_cast<std::size_t>(position)];
}

std::int64_t parse_bytes(const std::string& text) {
  if (const auto bytes = parse_size(text)) return *bytes;
  throw Error(
      ErrorKind::Options,
      fmt::format("bench comm: --sizes: expected sizes such as 4096, 4K, 100M or 1G, found '{}'",
                  text),
      "--sizes 4K,1M");
}

BenchCommOptions decide(const CommArguments& written) {
  auto options = written.options;
  options.collective = parse_collective(written.op);
  for (const auto& size : written.sizes) options.sizes.push_back(parse_bytes(size));
  if (!written.against.empty()) options.against = written.against;
  return options;
}

BenchReport measure_launch(BenchLaunchOptions options, const std::string& against,
                           const topology::Environment& environment) {
  const std::vector<std::string> peers{"torch", "none"};
  check_choice("bench launch: --against", against, peers);
  if (against == "torch") options.torch = find_launch_peer(environment);
  return bench_launch(options, environment);
}

PipelineReport measure_pipeline(const BenchPipelineOptions& options,
                                const topology::Environment& environment) {
  check(options);
  // The jobs take it.
  program_beside("lockstep-train");
  return bench_pipeline(options, own_program(), environment);
}

/// What another program does; nothing if it is done here.
const char* program_for(const Invocation& invocation) {
  if (invocation.arguments.empty()) return nullptr;
  if (invocation.arguments.front() == "data") return "lockstep-data";
  if (invocation.arguments.front() == "train") return "lockstep-train";
  return nullptr;
}

/// For the help alone.
void add_what_others_do(CLI::App& app) {
  app.add_subcommand("data", "load data, beside PyTorch's loader");
  app.add_subcommand("train", "train a network, beside libtorch's layers or PyTorch");
}

}  // namespace

int bench(const Invocation& invocation) {
  if (const auto* const program = program_for(invocation)) {
    auto arguments = invocation.arguments;
    arguments.insert(arguments.begin(), "bench");
    hand_on(program, arguments, invocation.environment);
  }
  CLI::App app("Measures this machine, beside the peers that are installed.", "bench");
  set_usage(app, "bench launch|comm|data|train|pipeline [options]");
  app.require_subcommand(1);
  BenchLaunchOptions launch_options;
  CommArguments comm_arguments;
  BenchPipelineOptions pipeline_options;
  std::string json_file;
  std::string folder;
  std::string launch_against = "none";
  add_launch(app, launch_options, launch_against, json_file);
  const auto* comm = add_comm(app, comm_arguments, json_file);
  add_what_others_do(app);
  const auto* pipeline = add_pipeline(app, pipeline_options, json_file);
  const auto* worker = add_comm_worker(app, folder);
  const auto* meet = add_meet(app);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;

  if (worker->parsed()) {
    bench_comm_worker(folder);
    return 0;
  }
  if (meet->parsed()) {
    bench_meet();
    return 0;
  }
  const auto show = [&](const auto& report) {
    fmt::print("{}", report.to_table());
    if (!json_file.empty()) write_file(json_file, report.to_json());
  };
  if (pipeline->parsed()) {
    show(measure_pipeline(pipeline_options, invocation.environment));
  } else if (comm->parsed()) {
    show(bench_comm(decide(comm_arguments), invocation.environment));
  } else {
    show(measure_launch(launch_options, launch_against, invocation.environment));
  }
  return 0;
}

}  // namespace lockstep::cli
