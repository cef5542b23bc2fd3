#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/topology/environment.h"

namespace CLI {
class App;
}

namespace lockstep::bench {

/// A subcommand of `lockstep bench`: its options, and the function that carries it out.
struct Command {
  const CLI::App* options;
  std::function<void(const topology::Environment& environment)> run;  ///< may throw `Error`
};

Command launch_command(CLI::App& app);
Command comm_command(CLI::App& app);
Command data_command(CLI::App& app);
Command train_command(CLI::App& app);
Command pipeline_command(CLI::App& app);

// Processes that the commands above start and measure: `lockstep-bench WORKER ARGUMENTS…`. The help
// does not list them.

/// "meet", for `lockstep bench launch`: meets the other instances of the job once.
void meet();
/// "comm-worker", for `lockstep bench comm`: runs the collectives of lockstep. The argument is the
/// folder of the job.
void comm_worker(const std::string& folder);
/// "update-worker", for `lockstep bench train --work update`: reduces gradients and updates
/// weights. The arguments are a network of the zoo and the number of steps.
void update_worker(const std::string& network, int steps);

/// The words of --against, where PyTorch is the only peer.
std::vector<std::string> torch_or_none();

/// Adds --json, which all benchmarks have.
void add_json_option(CLI::App& command, std::string& file);
/// Adds --rounds and --json.
void add_common_options(CLI::App& command, int& rounds, const std::string& what_a_round_is,
                        std::string& json_file);

/// Prints the table of a benchmark. Also writes its results to `json_file`, unless that is empty.
void publish(const std::string& table, const std::string& json, const std::string& json_file);

/// Runs `lockstep bench ARGUMENTS…`. Throws `Error`.
void run_bench(const std::vector<std::string>& arguments, const topology::Environment& environment);

}  // namespace lockstep::bench
