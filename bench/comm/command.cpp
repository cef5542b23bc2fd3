#include "lockstep/cli/command.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "bench/comm/measure_comm.h"
#include "bench/driver/commands.h"
#include "lockstep/base/error.h"
#include "lockstep/cli/byte_size.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/suggested_words.h"

namespace lockstep::bench {
namespace {

/// The command line of `bench comm`.
struct CommArguments {
  CommOptions options;
  std::string op{name_of(Collective::AllReduce)};
  std::vector<std::string> sizes{"4K", "32K", "256K", "1M", "8M", "100M"};
  std::vector<std::string> against;
  std::string json_file;
};

Collective parse_collective(const std::string& name) {
  std::vector<std::string> names;
  for (const auto collective : kCollectives) names.emplace_back(name_of(collective));
  cli::check_choice("bench comm: --op", name, names);
  const auto position = std::find(names.begin(), names.end(), name) - names.begin();
  return kCollectives[static_cast<std::size_t>(position)];
}

std::int64_t parse_bytes(const std::string& text) {
  if (const auto bytes = cli::parse_size(text)) return *bytes;
  throw Error(
      ErrorKind::Options,
      fmt::format("bench comm: --sizes: expected sizes such as 4096, 4K, 100M or 1G, found '{}'",
                  text),
      "--sizes 4K,1M");
}

CommOptions to_options(const CommArguments& arguments) {
  auto options = arguments.options;
  options.collective = parse_collective(arguments.op);
  for (const auto& size : arguments.sizes) options.sizes.push_back(parse_bytes(size));
  if (!arguments.against.empty()) options.against = arguments.against;
  return options;
}

}  // namespace

Command comm_command(CLI::App& app) {
  const auto arguments = std::make_shared<CommArguments>();
  auto* comm = app.add_subcommand(
      "comm", "measure collectives between processes, compared with Gloo and MPI");
  cli::set_usage(*comm, "bench comm [options]");
  comm->add_option("--op", arguments->op, "all_reduce, reduce_scatter, all_gather or broadcast")
      ->check(cli::suggest(kCollectives))
      ->type_name("NAME")
      ->capture_default_str();
  comm->add_option("--instances", arguments->options.instances,
                   "numbers of processes; each number is measured")
      ->delimiter(',')
      ->check(CLI::Range(2, 256))
      ->type_name("LIST")
      ->capture_default_str();
  comm->add_option("--sizes", arguments->sizes,
                   "sizes of the data in bytes, for example 4096, 4K, 100M or 1G")
      ->delimiter(',')
      ->type_name("LIST")
      ->capture_default_str();
  comm->add_option("--against", arguments->against,
                   "systems to compare with: gloo, mpi or none [all that are built]")
      ->delimiter(',')
      ->check(cli::suggest(std::array{"gloo", "mpi", "none"}))
      ->type_name("LIST");
  add_common_options(*comm, arguments->options.rounds,
                     "number of rounds for each size; slow sizes end after 5 rounds",
                     arguments->json_file);
  return {comm, [arguments](const topology::Environment& environment) {
            const auto report = measure_comm(to_options(*arguments), environment);
            publish(report.to_table(), report.to_json(), arguments->json_file);
          }};
}

}  // namespace lockstep::bench
