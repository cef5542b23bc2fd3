#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/bench_report.h"
#include "lockstep/cli/bench_train_torch.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/model_arguments.h"
#include "lockstep/nn/bench/step_times.h"

namespace lockstep::cli {
namespace {

/// The arguments of `bench train` as they are written.
struct Arguments {
  std::string against = "none";
  ModelArguments model;
  std::int64_t batch_size = 64;
  std::optional<int> instances;
  std::vector<int> threads{1, 2};
  std::optional<int> rounds;
  std::vector<std::string> works{"train", "update"};
  std::int64_t steps = 50;
  std::string json_file;
};

/// Options that one of the two benchmarks has and the other has not.
constexpr std::array kAloneOnly{"--model", "--classes",   "--image-size",
                                "--seed",  "--init-from", "--threads-per-device"};
constexpr std::array kAgainstTorchOnly{"--work", "--steps"};
constexpr int kRoundsAlone = 20;

void add_torch_options(CLI::App& train, Arguments& to) {
  train
      .add_option("--work", to.works,
                  "for --against torch: train (whole jobs), update (reducing and updating alone)")
      ->delimiter(',')
      ->type_name("LIST")
      ->capture_default_str();
  train.add_option("--steps", to.steps, "for --against torch: of each job")
      ->check(CLI::Range(20, 100'000))
      ->capture_default_str();
}

CLI::App* add_train(CLI::App& app, Arguments& to) {
  const BenchTrainTorchOptions torch;
  auto* train = app.add_subcommand("train", "train a network, beside libtorch's layers or PyTorch");
  set_usage(*train, "bench train [options]");
  train
      ->add_option("--against", to.against,
                   "torch: whole jobs of a resnet20 beside PyTorch's DistributedDataParallel; "
                   "none: steps of one process beside libtorch's own layers")
      ->type_name("NAME")
      ->capture_default_str();
  add_model_options(*train, to.model);
  train->add_option("--batch-size", to.batch_size, "pictures of a micro-batch")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20))
      ->capture_default_str();
  train
      ->add_option("--instances", to.instances,
                   fmt::format("processes of a job, for --against torch [{}]", torch.instances))
      ->check(CLI::Range(1, 1024));
  train
      ->add_option("--threads-per-device", to.threads,
                   "threads that compute; each number is measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("LIST")
      ->capture_default_str();
  train
      ->add_option("--rounds", to.rounds,
                   fmt::format("steps of each, in turn [{}]; with --against torch, jobs of each "
                               "[{}]",
                               kRoundsAlone, torch.rounds))
      ->check(CLI::Range(1, 10000));
  add_torch_options(*train, to);
  train->add_option("--json", to.json_file, "also write the results to a file")->type_name("FILE");
  return train;
}

void check(const Arguments& arguments, const CLI::App& train) {
  const std::vector<std::string> peers{"torch", "none"};
  check_choice("bench train: --against", arguments.against, peers);
  const auto refuse = [&](const char* option, const std::string& other) {
    if (train.get_option(option)->count() == 0) return;
    throw Error(ErrorKind::Options,
                fmt::format("bench train: expected no {} with --against {}, found one", option,
                            arguments.against),
                fmt::format("--against {}, or leave {} out", other, option));
  };
  if (arguments.against == "torch") {
    for (const auto* option : kAloneOnly) refuse(option, "none");
    return;
  }
  for (const auto* option : kAgainstTorchOnly) refuse(option, "torch");
  if (arguments.instances.value_or(1) == 1) return;
  throw Error(ErrorKind::Options,
              fmt::format("bench train: expected --instances 1 with --against none, found {}",
                          *arguments.instances),
              "--against torch");
}

BenchTrainTorchOptions decide(const Arguments& written) {
  BenchTrainTorchOptions options;
  options.works.clear();
  for (const auto& name : written.works) {
    options.works.push_back(parse_train_work("bench train: --work", name));
  }
  options.instances = written.instances.value_or(options.instances);
  options.batch_size = written.batch_size;
  options.steps = written.steps;
  options.rounds = written.rounds.value_or(options.rounds);
  return options;
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
                                     .rounds = arguments.rounds.value_or(kRoundsAlone)});
  const auto work = fmt::format("train {}, batch {}, {} thread{}", model.model,
                                arguments.batch_size, threads, threads == 1 ? "" : "s");
  report.rows.push_back(row_of(work, "lockstep", times.seconds, times, arguments.batch_size));
  if (times.libtorch_seconds.empty()) return;
  const auto ours = report.rows.back().timing.median;
  auto peer = row_of(work, "libtorch", times.libtorch_seconds, times, arguments.batch_size);
  peer.ratio = ours / peer.timing.median;
  report.rows.push_back(std::move(peer));
}

BenchReport measure_alone(const Arguments& arguments) {
  const auto model = model_request("bench train", arguments.model);
  BenchReport report{.name = "train", .rows = {}};
  for (const auto threads : arguments.threads) measure(arguments, model, threads, report);
  return report;
}

BenchReport measure_against_torch(const Arguments& arguments,
                                  const topology::Environment& environment) {
  const auto options = decide(arguments);
  return bench_train_torch(options, find_train_programs(environment), environment);
}

}  // namespace

int bench_train_command(const Invocation& invocation) {
  CLI::App app("Measures this machine, beside the peers that are installed.", "bench");
  set_usage(app, "bench train [options]");
  app.require_subcommand(1);
  Arguments arguments;
  const auto* const train = add_train(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  check(arguments, *train);
  const auto report = arguments.against == "torch"
                          ? measure_against_torch(arguments, invocation.environment)
                          : measure_alone(arguments);
  fmt::print("{}", report.to_table());
  if (!arguments.json_file.empty()) write_file(arguments.json_file, report.to_json());
  return 0;
}

}  // namespace lockstep::cli
