#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/bench_report.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/model_arguments.h"
#include "lockstep/nn/bench/step_times.h"

namespace lockstep::cli {
namespace {

/// The arguments of `bench train` as they are written.
struct Arguments {
  ModelArguments model;
  std::int64_t batch_size = 64;
  int instances = 1;
  std::vector<int> threads{1, 2};
  int rounds = 20;
  std::string json_file;
};

void add_train(CLI::App& app, Arguments& to) {
  auto* train = app.add_subcommand("train", "train a network, beside libtorch's own layers");
  set_usage(*train, "bench train [options]");
  add_model_options(*train, to.model);
  train->add_option("--batch-size", to.batch_size, "pictures of a micro-batch")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20))
      ->capture_default_str();
  train->add_option("--instances", to.instances, "processes; 1 until there is a training engine")
      ->capture_default_str();
  train
      ->add_option("--threads-per-device", to.threads,
                   "threads that compute; each number is measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("LIST")
      ->capture_default_str();
  train->add_option("--rounds", to.rounds, "steps of each, in turn")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  train->add_option("--json", to.json_file, "also write the results to a file")->type_name("FILE");
}

void check(const Arguments& arguments) {
  if (arguments.instances == 1) return;
  throw Error(ErrorKind::Unavailable,
              fmt::format("bench train: expected --instances 1, found {}: there is no training "
                          "engine yet that would combine them",
                          arguments.instances),
              "--instances 1");
}

BenchRow row_of(const std::string& work, const std::string& system,
                const std::vector<double>& seconds, const nn::StepTimes& times,
                std::int64_t batch_size) {
  std::vector<Seconds> samples;
  for (const auto each : seconds) samples.emplace_back(each);
  BenchRow row{.work = work, .system = system, .timing = summarize(std::move(samples))};
  const auto median = row.timing.median.count();
  row.images_per_second = static_cast<double>(batch_size) / median;
  row.peak_share = times.flops / median / times.sgemm_flops;
  return row;
}

void measure(const Arguments& arguments, const nn::ModelRequest& model, int threads,
             BenchReport& report) {
  const auto times = nn::time_steps({.model = model,
                                     .batch_size = arguments.batch_size,
                                     .threads = threads,
                                     .rounds = arguments.rounds});
  const auto work = fmt::format("train {}, batch {}, {} thread{}", model.model,
                                arguments.batch_size, threads, threads == 1 ? "" : "s");
  report.rows.push_back(row_of(work, "lockstep", times.seconds, times, arguments.batch_size));
  if (times.libtorch_seconds.empty()) return;
  const auto ours = report.rows.back().timing.median;
  auto peer = row_of(work, "libtorch", times.libtorch_seconds, times, arguments.batch_size);
  peer.ratio = ours / peer.timing.median;
  report.rows.push_back(std::move(peer));
}

}  // namespace

int bench_train_command(const Invocation& invocation) {
  CLI::App app("Measures this machine, beside the peers that are installed.", "bench");
  set_usage(app, "bench train [options]");
  app.require_subcommand(1);
  Arguments arguments;
  add_train(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  check(arguments);
  const auto model = model_request("bench train", arguments.model);
  BenchReport report{.name = "train", .rows = {}};
  for (const auto threads : arguments.threads) measure(arguments, model, threads, report);
  fmt::print("{}", report.to_table());
  if (!arguments.json_file.empty()) write_file(arguments.json_file, report.to_json());
  return 0;
}

}  // namespace lockstep::cli
