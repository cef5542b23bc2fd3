#include "lockstep/cli/command.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>

#include "bench/driver/commands.h"
#include "bench/driver/report.h"
#include "bench/train/against_torch.h"
#include "bench/train/torch_functions.h"
#include "lockstep/base/error.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/model_arguments.h"
#include "lockstep/cli/suggested_words.h"

namespace lockstep::bench {
namespace {

/// The command line of `bench train`.
struct TrainArguments {
  std::string against = "none";
  cli::ModelArguments model;
  std::int64_t batch_size = 64;
  std::optional<int> instances;
  std::vector<int> threads{1, 2};
  std::optional<int> rounds;
  std::vector<std::string> works{"train", "update"};
  std::int64_t steps = 50;
  std::string json_file;
};

/// Options that only one of the two benchmarks has.
constexpr std::array kAloneOnly{"--model", "--classes",   "--image-size",
                                "--seed",  "--init-from", "--threads-per-device"};
constexpr std::array kAgainstTorchOnly{"--work", "--steps"};
constexpr int kRoundsAlone = 20;

void add_torch_options(CLI::App& train, TrainArguments& to) {
  train
      .add_option("--work", to.works,
                  "for --against torch: train (whole jobs) or update (only reductions and updates)")
      ->check(cli::suggest(kTrainWorks))
      ->delimiter(',')
      ->type_name("LIST")
      ->capture_default_str();
  train.add_option("--steps", to.steps, "for --against torch: number of steps of each job")
      ->check(CLI::Range(20, 100'000))
      ->capture_default_str();
}

CLI::App* add_options(CLI::App& app, TrainArguments& to) {
  const AgainstTorchOptions torch;
  auto* train = app.add_subcommand(
      "train", "measure the training of a network, compared with libtorch or PyTorch");
  cli::set_usage(*train, "bench train [options]");
  train
      ->add_option(
          "--against", to.against,
          "torch: jobs that train a resnet20, compared with DistributedDataParallel of PyTorch; "
          "none: steps of one process, compared with the layers of libtorch")
      ->check(cli::suggest(torch_or_none()))
      ->type_name("NAME")
      ->capture_default_str();
  cli::add_model_options(*train, to.model);
  train->add_option("--batch-size", to.batch_size, "number of images in a micro-batch")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20))
      ->capture_default_str();
  train
      ->add_option(
          "--instances", to.instances,
          fmt::format("for --against torch: number of processes of a job [{}]", torch.instances))
      ->check(CLI::Range(1, 1024));
  train
      ->add_option("--threads-per-device", to.threads,
                   "numbers of threads that compute; each number is measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("LIST")
      ->capture_default_str();
  train
      ->add_option(
          "--rounds", to.rounds,
          fmt::format("number of steps of each system [{}]; with --against torch, number of "
                      "jobs of each system [{}]",
                      kRoundsAlone, torch.rounds))
      ->check(CLI::Range(1, 10000));
  add_torch_options(*train, to);
  add_json_option(*train, to.json_file);
  return train;
}

void check(const TrainArguments& arguments, const CLI::App& train) {
  cli::check_choice("bench train: --against", arguments.against, torch_or_none());
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

AgainstTorchOptions to_options(const TrainArguments& arguments) {
  AgainstTorchOptions options;
  options.works.clear();
  for (const auto& name : arguments.works) {
    options.works.push_back(parse_train_work("bench train: --work", name));
  }
  options.instances = arguments.instances.value_or(options.instances);
  options.batch_size = arguments.batch_size;
  options.steps = arguments.steps;
  options.rounds = arguments.rounds.value_or(options.rounds);
  return options;
}

Row row_of(const std::string& work, const std::string& system, const std::vector<double>& seconds,
           const StepTimes& times, std::int64_t batch_size) {
  std::vector<Seconds> samples;
  for (const auto each : seconds) samples.emplace_back(each);
  Row row{.work = work, .system = system, .timing = summarize(std::move(samples))};
  const auto median = row.timing.median.count();
  row.images_per_second = static_cast<double>(batch_size) / median;
  row.peak_share = times.flops / median / times.sgemm_flops;
  return row;
}

void measure(const TrainArguments& arguments, const nn::ModelRequest& model, int threads,
             Report& report) {
  const auto times =
      torch_functions().time_steps({.model = model,
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

Report measure_alone(const TrainArguments& arguments) {
  const auto model = cli::model_request("bench train", arguments.model);
  Report report{.name = "train", .rows = {}};
  for (const auto threads : arguments.threads) measure(arguments, model, threads, report);
  return report;
}

Report measure_jobs(const TrainArguments& arguments, const topology::Environment& environment) {
  const auto options = to_options(arguments);
  return measure_against_torch(options, find_train_programs(environment), environment);
}

}  // namespace

Command train_command(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  const auto* const train = add_options(app, *arguments);
  return {train, [arguments, train](const topology::Environment& environment) {
            check(*arguments, *train);
            const auto report = arguments->against == "torch"
                                    ? measure_jobs(*arguments, environment)
                                    : measure_alone(*arguments);
            publish(report.to_table(), report.to_json(), arguments->json_file);
          }};
}

}  // namespace lockstep::bench
