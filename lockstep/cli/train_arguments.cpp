#include "lockstep/cli/train_arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/base/version.h"
#include "lockstep/checkpoint/find_checkpoint.h"
#include "lockstep/checkpoint/interval.h"
#include "lockstep/checkpoint/resume.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/image_size.h"
#include "lockstep/cli/train_choices.h"
#include "lockstep/cli/train_conflicts.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/data/sets/set_names.h"
#include "lockstep/monitor/export/report_file.h"
#include "lockstep/nn/zoo/network_names.h"
#include "lockstep/weights/weight_format.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTrainFooter =
    "By default one process computes all replicas. With --num-instances or another option of the\n"
    "launcher, the command starts the instances itself, as 'lockstep run' does. Under\n"
    "'lockstep run' or another launcher, the process is one instance of that job. The weights "
    "have\n"
    "the same bits in all cases if --replicas and --threads-per-device are equal.\n"
    "\n"
    "With --checkpoint-dir, SIGTERM writes a checkpoint and ends the training with exit code 75.\n"
    "The same command with --resume=auto then continues. With --max-restarts, a crash costs one\n"
    "optimizer step.\n"
    "\n"
    "Exit code: 2 for a wrong option, 3 for data or weights that do not match, 4 if a required\n"
    "part of the build or the machine is missing, 5 for an input or output error, 6 for a "
    "timeout,\n"
    "7 for a lost instance, 8 if the training diverged, 75 if it was stopped and can continue.\n"
    "\n"
    "Example: lockstep train --model resnet20 --dataset fashion-mnist --batch-size 64 --replicas "
    "8\n";

constexpr const char* kPlanFooter =
    "Accepts the options of 'lockstep train' and trains nothing. It measures the network briefly\n"
    "and stores the plan for the training that follows. Measured times affect the speed, never\n"
    "the results. If a plan does not fit into memory, the command shows it with a warning.\n"
    "\n"
    "Exit code: 0, also after a warning. Errors have the exit codes of 'lockstep train'.\n"
    "\n"
    "Example: lockstep plan --model resnet101 --dataset cifar10 --devices-per-replica 2\n";

constexpr const char* kEvalFooter =
    "Every sample counts exactly once. The result depends on the weights, the data, --batch-size\n"
    "and the processor model. It does not depend on --num-instances, on --replicas or on options\n"
    "of 'lockstep run': every core computes its own batches. Each host must be able to read the\n"
    "weights and the data.\n"
    "\n"
    "Exit code: 2 for a wrong option, 3 for data or weights that do not match, 4 if a required\n"
    "part of the build or the machine is missing, 5 for an input or output error, 6 for a "
    "timeout,\n"
    "7 for a lost instance.\n"
    "\n"
    "Example: lockstep eval --checkpoint checkpoints --dataset fashion-mnist --json result.json\n";

/// How a message about an option begins.
std::string at(const TrainOptions& written, const char* option) {
  return fmt::format("{}: {}", name_of(written.command), option);
}

/// The value that a word stands for. Throws `Options`, with the choices.
template <typename Value, std::size_t count>
Value choose(const std::string& where, const std::string& word,
             const std::array<Value, count>& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name_of(value));
  check_choice(where, word, names);
  return values[static_cast<std::size_t>(std::ranges::find(names, word) - names.begin())];
}

/// A name, or a file of some kind. Throws `Options` for what is neither.
void check_name_or_file(const TrainOptions& written, const char* option, const std::string& word,
                        const std::vector<std::string>& names, const std::string& extension,
                        const char* what_file) {
  if (word.ends_with(extension) || std::ranges::find(names, word) != names.end()) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected one of {}, or {}, found '{}'", at(written, option),
                          fmt::join(names, ", "), what_file, word),
              fmt::format("{} {}", option, closest(word, names).value_or(names.front())));
}

/// Hours of training must not end in a name that cannot be written to.
void check_can_be_written(const TrainOptions& written, const char* option,
                          const std::string& file) {
  if (file.empty()) return;
  std::error_code failure;
  if (std::filesystem::is_directory(file, failure)) {
    throw Error(ErrorKind::Io,
                fmt::format("{} {}: expected a file, found a folder", at(written, option), file),
                "name a file in that folder");
  }
  auto folder = std::filesystem::path(file).parent_path();
  if (folder.empty()) folder = ".";
  if (std::filesystem::is_directory(folder, failure)) return;
  throw Error(ErrorKind::Io,
              fmt::format("{} {}: expected '{}' to be a folder, found none", at(written, option),
                          file, folder.string()),
              fmt::format("mkdir -p {}", folder.string()));
}

void check_device(const TrainOptions& written) {
  const auto where = at(written, "--device");
  check_choice(where, written.device, device_names());
  if (written.device != "cuda" || built_with_cuda()) return;
  throw Error(ErrorKind::Unavailable,
              where + ": expected auto or cpu, found cuda: this build computes on the CPU",
              "--device cpu");
}

void decide_device(const TrainOptions& written, train::TrainRequest& request) {
  if (written.device == "cpu") request.device = DeviceKind::Cpu;
  if (written.device == "cuda") request.device = DeviceKind::Cuda;
  request.deterministic = written.deterministic;
  request.fuse = choose(at(written, "--fuse"), written.fuse, kFuses);
  request.gpu_transport =
      choose(at(written, "--gpu-transport"), written.gpu_transport, kGpuTransports);
}

VectorUnit decide_vector_unit(const TrainOptions& written) {
  const auto unit = choose(at(written, "--cpu-features"), written.cpu_features, kVectorUnits);
  check_vector_unit(std::string(name_of(written.command)), unit, vector_units_here());
  return unit;
}

/// "layer2.0,layer3.0" as names.
std::vector<std::string> decide_split(const TrainOptions& written) {
  std::vector<std::string> names;
  for (const auto name : split(written.split, ',')) {
    names.emplace_back(trim(name));
    if (!names.back().empty()) continue;
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected names of blocks with a comma between them, found '{}'",
                            at(written, "--split"), written.split),
                "--split layer2.0,layer3.0; or --devices-per-replica alone");
  }
  return names;
}

/// How a replica is spread over devices.
void decide_stages(const CLI::App& app, const TrainOptions& written, train::TrainRequest& request) {
  if (app.count("--split") > 0) request.split = decide_split(written);
  request.pipeline = choose(at(written, "--pipeline"), written.pipeline, kPipelineSchedules);
  request.overlap = choose(at(written, "--overlap"), written.overlap, kOverlaps);
  if (app.count("--recompute") == 0) return;
  request.recompute = choose(at(written, "--recompute"), written.recompute, kRecomputes);
}

/// Replaces words by what they stand for.
void decide_words(const TrainOptions& written, train::TrainRequest& request) {
  request.augment = choose(at(written, "--augment"), written.augment, kAugments);
  check_choice(at(written, "--schedule"), written.schedule, schedule_names());
  request.schedule.kind = parse_schedule(written.schedule);
  request.precision = choose(at(written, "--precision"), written.precision, kPrecisions);
  request.half = choose(at(written, "--half"), written.half, kHalves);
  request.reduction = choose(at(written, "--reduction"), written.reduction, kReductions);
  request.order =
      choose(at(written, "--reduction-order"), written.reduction_order, kReductionOrders);
}

/// Names and words that are choices by themselves.
void check_names(const TrainOptions& written) {
  check_name_or_file(written, "--model", written.request.model.model,
                     {nn::kNetworkNames.begin(), nn::kNetworkNames.end()}, ".pt",
                     "a TorchScript file that ends in .pt");
  check_name_or_file(written, "--dataset", written.data.dataset, data::set_names(), ".pack",
                     "the path of a .pack");
  check_choice(at(written, "--optimizer"), written.optimizer, optimizer_names());
  check_choice(at(written, "--decay-of"), written.decay_of, decay_names());
}

void check_files(const TrainOptions& written) {
  const auto& request = written.request;
  if (!request.export_to.empty()) weights::format_for(request.export_to);
  check_can_be_written(written, "--export", request.export_to);
  check_can_be_written(written, "--summary", request.summary_file);
  check_can_be_written(written, "--trace", request.trace_file);
  check_can_be_written(written, "--json", written.json_file);
  if (request.report_file.empty()) return;
  monitor::check_report_file(fmt::format("{} {}", at(written, "--report"), request.report_file),
                             request.report_file);
}

/// How long a job with checkpoints has to end with one, where nothing else is said: as long as
/// Slurm waits.
constexpr events::Seconds kTimeToCheckpoint{30};

/// Sets the options that are not given to the values of the training that wrote the checkpoint.
void take_options_of_checkpoint(const CLI::App& app, TrainOptions& written) {
  auto& evaluation = written.evaluation;
  std::error_code ignored;  // If the path cannot be examined, opening it says why.
  if (std::filesystem::status(evaluation.checkpoint, ignored).type() ==
      std::filesystem::file_type::not_found) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected a checkpoint or a folder of checkpoints, found nothing "
                            "at {}",
                            at(written, "--checkpoint"), evaluation.checkpoint),
                "name the folder that was --checkpoint-dir of the training");
  }
  const checkpoint::Resume from{.from = checkpoint::Resume::From::Path,
                                .path = evaluation.checkpoint};
  const auto set = [&](const char* option, const char* name, auto&& use) {
    if (app.count(option) > 0) return;
    if (const auto value = checkpoint::option_of_checkpoint(from, {}, name)) use(*value);
  };
  set("--model", "model", [&](const std::string& name) { written.request.model.model = name; });
  set("--normalize-as", "dataset",
      [&](const std::string& name) { written.request.normalize_as = name; });
  set("--dataset", "dataset", [&](const std::string& name) {
    written.data.dataset = name;
    evaluation.has_set_of_training = true;
  });
  set("--seed", "seed", [&](const std::string& seed) {
    written.request.seed = static_cast<std::uint64_t>(parse_integer(seed).value_or(0));
  });
  set("--precision", "precision", [&](const std::string& name) { written.precision = name; });
  set("--half", "half", [&](const std::string& name) { written.half = name; });
  set("--eight-bit-io", "eight-bit-io",
      [&](const std::string& is_on) { written.request.eight_bit_io = is_on == "yes"; });
  set("--image-size", "image-size", [&](const std::string& size) {
    const bool is_size = size.find('x') != std::string::npos;  // not "as stored"
    if (is_size && written.data.dataset != data::kSyntheticSet) written.image_size = size;
  });
  if (written.data.dataset != data::kSyntheticSet) return;
  auto& synthetic = written.data.synthetic;
  set("--classes", "classes", [&](const std::string& count) {
    synthetic.classes = parse_integer(count).value_or(synthetic.classes);
  });
  set("--data-seed", "data-seed", [&](const std::string& seed) {
    synthetic.seed = static_cast<std::uint64_t>(parse_integer(seed).value_or(0));
  });
}

/// Reads "FIRST:END".
data::IndexRange parse_samples(const std::string& where, const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() == 2) {
    const auto first = parse_integer(parts[0]);
    const auto end = parse_integer(parts[1]);
    if (first && end && *first >= 0 && *end > *first) return {*first, *end};
  }
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected FIRST:END with 0 <= FIRST < END, found '{}'", where, text),
              "--samples 0:1000");
}

/// Decides which weights are evaluated, and on which samples.
void decide_evaluation(const CLI::App& app, TrainOptions& written) {
  auto& evaluation = written.evaluation;
  check_choice(at(written, "--split"), written.evaluated_split, split_names());
  evaluation.split = written.evaluated_split == "train" ? data::Split::Train : data::Split::Test;
  evaluation.weights =
      choose(at(written, "--weights"), written.checkpoint_weights, kCheckpointWeights);
  if (app.count("--samples") > 0) {
    evaluation.samples = parse_samples(at(written, "--samples"), written.evaluated_samples);
    if (written.request.limit_test) {
      throw Error(ErrorKind::Options, "eval: expected --samples or --limit, found both",
                  "leave one of them out");
    }
  }
  if (!evaluation.checkpoint.empty()) take_options_of_checkpoint(app, written);
  const auto& as = written.request.normalize_as;
  if (as.empty()) return;
  check_name_or_file(written, "--normalize-as", as, data::set_names(), ".pack",
                     "the path of a .pack");
}

/// A run that goes on keeps T; one that begins must not mix its checkpoints with those of another.
void decide_checkpoints(const CLI::App& app, const topology::Identity& identity,
                        TrainOptions& written) {
  auto& request = written.request;
  auto& run = written.launch.parsed.run;
  if (!request.checkpoint_dir.empty()) {
    checkpoint::parse_interval(at(written, "--checkpoint-every"), request.checkpoint_every);
    if (app.count("--grace-period") == 0) run.grace_period = kTimeToCheckpoint;
  }
  if (app.count("--resume") > 0) {
    request.resume = written.resume;
    const auto threads = checkpoint::option_of_checkpoint(
        checkpoint::parse_resume(written.resume), request.checkpoint_dir, "threads-per-device");
    const bool is_free =
        !run.threads_per_device && identity.launched_by == topology::LaunchedBy::Nobody;
    if (threads && is_free)
      run.threads_per_device = static_cast<int>(parse_integer(*threads).value_or(1));
  } else if (!request.checkpoint_dir.empty() && identity.restart_count == 0 &&
             written.command == TrainCommand::Train) {
    checkpoint::check_is_unused(at(written, "--checkpoint-dir"), request.checkpoint_dir);
  }
}

Optimizer make_optimizer(const TrainOptions& written) {
  if (written.optimizer == "sgd") {
    return SGD({.lr = written.lr.value_or(SgdOptions{}.lr),
                .momentum = written.momentum,
                .weight_decay = written.weight_decay,
                .nesterov = written.nesterov});
  }
  AdamOptions options;
  options.lr = written.lr.value_or(options.lr);
  options.weight_decay = written.weight_decay;
  if (written.optimizer == "adam") return Adam(options);
  return written.optimizer == "adamw" ? AdamW(options) : LAMB(options);
}

Optimizer decide_optimizer(const TrainOptions& written) {
  auto optimizer = make_optimizer(written);
  if (written.decay_of == "matrices") optimizer.decay(DecayOf::Matrices);
  if (written.clip_norm) optimizer.clip_norm(*written.clip_norm);
  if (written.ema_decay) optimizer.average_weights(*written.ema_decay);
  return optimizer;
}

/// Synthetic pictures are made as they are wanted; all others are resized.
void decide_data(const TrainOptions& written, train::TrainRequest& request) {
  const std::string where(name_of(written.command));
  auto data = written.data;
  request.dataset = data.dataset;
  if (!written.image_size.empty()) {
    const auto size = parse_image_size(where, written.image_size);
    if (data.dataset == data::kSyntheticSet) {
      data.image_size = written.image_size;
    } else {
      request.image_size = data::ImageSize{size.height, size.width};
    }
  }
  request.set = set_options(where, data);
  request.cache_path = data.cache_dir;
}

/// S: what is said of it, or what a split comes to.
int decide_devices(const TrainOptions& written) {
  const auto& split = written.request.split;
  return split.empty() ? written.launch.parsed.run.devices_per_replica
                       : static_cast<int>(split.size()) + 1;
}

train::TrainRequest decide_request(const TrainOptions& written,
                                   const topology::Identity& identity) {
  auto request = written.request;
  decide_data(written, request);
  request.model.seed = request.seed;
  request.optimizer = decide_optimizer(written);
  // If the launcher has set the number, `check_conflicts` has compared the option with it. An
  // evaluation divides the cores of its instances by itself.
  if (!identity.threads_per_device || written.command == TrainCommand::Eval) {
    request.threads_per_device = written.launch.parsed.run.threads_per_device;
  }
  if (identity.launched_by == topology::LaunchedBy::Nobody) {
    request.devices_per_replica = decide_devices(written);
  }
  if (written.sync_loader) request.loader_mode = data::LoaderMode::Sync;
  return request;
}

/// The rest of the launcher's options: what the trainer is told counts for the job as well.
RunArguments decide_job(const TrainOptions& written) {
  auto job = decide(std::string(name_of(written.command)), written.launch);
  job.run.num_replicas = written.request.replicas;
  job.run.devices_per_replica = decide_devices(written);
  job.run.log_dir = written.request.log_dir;
  job.run.cache_path = written.data.cache_dir;
  if (written.command == TrainCommand::Eval) {
    // An evaluation divides the cores of its instances by itself.
    job.run.num_replicas.reset();
    job.run.threads_per_device.reset();
  }
  return job;
}

std::vector<GivenOption> given_options(const CLI::App& app) {
  std::vector<GivenOption> given;
  for (const auto* option : app.get_options()) {
    if (option->count() == 0) continue;
    const bool is_flag = option->get_expected_min() == 0;
    const auto& value = option->results().back();
    const bool is_bare = is_flag && value == "true";
    given.push_back({.name = "--" + option->get_lnames().front(),
                     .value = is_bare ? std::nullopt : std::optional(value),
                     .is_flag = is_flag});
  }
  return given;
}

/// The options that were not given and have a default, with its value.
std::vector<GivenOption> default_options(const CLI::App& app) {
  std::vector<GivenOption> defaults;
  for (const auto* option : app.get_options()) {
    const bool is_shown = !option->get_group().empty() && !option->get_lnames().empty();
    // The default of an option that may be without a value is what it means without one.
    const bool needs_value = option->get_expected_min() > 0;
    if (option->count() > 0 || !is_shown || !needs_value || option->get_default_str().empty()) {
      continue;
    }
    defaults.push_back(
        {.name = "--" + option->get_lnames().front(), .value = option->get_default_str()});
  }
  return defaults;
}

/// No job is started for a plan, and each of one that was would make the same.
void check_plans_alone(const topology::Identity& identity) {
  if (identity.launched_by == topology::LaunchedBy::Nobody) return;
  throw Error(ErrorKind::Options,
              "plan: expected to be started by itself, found that a launcher has started it",
              "run 'lockstep plan' without the launcher, with the options of 'lockstep train'");
}

void describe(CLI::App& app, TrainCommand command) {
  set_usage(app, fmt::format("{} [options]", name_of(command)));
  switch (command) {
    case TrainCommand::Train:
      app.description("Trains a network with many replicas in parallel.");
      app.footer(kTrainFooter);
      return;
    case TrainCommand::Plan:
      app.description(
          "Shows the plan of a training, without training: placement, stages, buckets, memory.");
      app.footer(kPlanFooter);
      return;
    case TrainCommand::Eval:
      app.description(
          "Evaluates weights on a dataset: accuracy, loss, a table of the classes, confusion "
          "matrix.");
      app.footer(kEvalFooter);
      return;
  }
}

}  // namespace

std::optional<TrainArguments> parse_train_arguments(const std::vector<std::string>& arguments,
                                                    const topology::Identity& identity,
                                                    TrainCommand command) {
  TrainOptions written(command);
  CLI::App app("", std::string(name_of(command)));
  describe(app, command);
  add_train_options(app, written);
  if (parse(app, arguments) == Parsed::HelpShown) return std::nullopt;

  if (command == TrainCommand::Plan) check_plans_alone(identity);
  const bool is_evaluation = command == TrainCommand::Eval;
  if (is_evaluation) decide_evaluation(app, written);
  check_names(written);
  decide_words(written, written.request);
  if (!is_evaluation) decide_stages(app, written, written.request);
  check_conflicts(app, written, identity);
  check_device(written);
  decide_device(written, written.request);
  check_files(written);
  if (!is_evaluation) decide_checkpoints(app, identity, written);
  return TrainArguments{.command = command,
                        .request = decide_request(written, identity),
                        .evaluation = written.evaluation,
                        .job = decide_job(written),
                        .vector_unit = decide_vector_unit(written),
                        .json_file = written.json_file,
                        .given = given_options(app),
                        .defaults = default_options(app)};
}

}  // namespace lockstep::cli
