#include "lockstep/cli/train_arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/image_size.h"
#include "lockstep/cli/train_conflicts.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/nn/zoo/network_names.h"
#include "lockstep/weights/weight_format.h"

namespace lockstep::cli {
namespace {

constexpr const char* kFooter =
    "Alone, all replicas are in one process. With --num-instances, or another option of the\n"
    "launcher, it starts itself over that many as 'lockstep run' would; under 'lockstep run' and\n"
    "other launchers it takes its place from them. The weights are the same bits either way, as\n"
    "long as replicas and threads per device are.\n"
    "\n"
    "Exit code: 2 for a wrong option, 3 for data, 4 for what is not available, 5 for input and\n"
    "output, 6 for a timeout, 7 for a lost instance, 8 where training diverged.\n"
    "\n"
    "Example: lockstep train --model resnet20 --dataset fashion-mnist --batch-size 64 --replicas "
    "8\n";

/// The value that a word stands for. Throws `Options`, with the choices.
template <typename Value, std::size_t count>
Value choose(const char* option, const std::string& word, const std::array<Value, count>& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name_of(value));
  check_choice(fmt::format("train: {}", option), word, names);
  return values[static_cast<std::size_t>(std::ranges::find(names, word) - names.begin())];
}

/// A name, or a file of some kind. Throws `Options` for what is neither.
void check_name_or_file(const char* option, const std::string& word,
                        const std::vector<std::string>& names, const std::string& extension,
                        const char* what_file) {
  if (word.ends_with(extension) || std::ranges::find(names, word) != names.end()) return;
  throw Error(ErrorKind::Options,
              fmt::format("train: {}: expected one of {}, or {}, found '{}'", option,
                          fmt::join(names, ", "), what_file, word),
              fmt::format("{} {}", option, closest(word, names).value_or(names.front())));
}

/// Hours of training must not end in a name that cannot be written to.
void check_can_be_written(const char* option, const std::string& file) {
  if (file.empty()) return;
  auto folder = std::filesystem::path(file).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code failure;
  if (std::filesystem::is_directory(folder, failure)) return;
  throw Error(ErrorKind::Io,
              fmt::format("train: {} {}: expected '{}' to be a folder, found none", option, file,
                          folder.string()),
              fmt::format("mkdir -p {}", folder.string()));
}

void check_device(const std::string& word) {
  check_choice("train: --device", word, std::vector<std::string>{"auto", "cpu", "cuda"});
  if (word != "cuda") return;
  throw Error(ErrorKind::Unavailable,
              "train: --device: expected auto or cpu, found cuda: this build computes on the CPU",
              "--device cpu");
}

VectorUnit decide_vector_unit(const std::string& word) {
  const auto unit = choose("--cpu-features", word, kVectorUnits);
  check_vector_unit("train", unit, vector_units_here());
  return unit;
}

/// Replaces words by what they stand for.
void decide_words(const TrainOptions& written, train::TrainRequest& request) {
  using data::Augment;
  request.augment = choose("--augment", written.augment,
                           std::array{Augment::None, Augment::Flip, Augment::Standard});
  check_choice("train: --schedule", written.schedule, schedule_names());
  request.schedule.kind = parse_schedule(written.schedule);
  request.precision = choose("--precision", written.precision,
                             std::array{Precision::P32_32, Precision::P16_32, Precision::P16_16});
  request.half = choose("--half", written.half, std::array{Half::BF16, Half::F16});
  request.reduction =
      choose("--reduction", written.reduction, std::array{Reduction::Mean, Reduction::Sum});
  request.order = choose("--reduction-order", written.reduction_order,
                         std::array{ReductionOrder::Ordered, ReductionOrder::Fast});
}

/// Names and words that are choices by themselves.
void check_names(const TrainOptions& written) {
  check_name_or_file("--model", written.request.model.model,
                     {nn::kNetworkNames.begin(), nn::kNetworkNames.end()}, ".pt",
                     "a TorchScript file that ends in .pt");
  check_name_or_file("--dataset", written.data.dataset, data::set_names(), ".pack",
                     "the path of a .pack");
  check_choice("train: --optimizer", written.optimizer,
               std::vector<std::string>{"sgd", "adam", "adamw", "lamb"});
  check_choice("train: --decay-of", written.decay_of, std::vector<std::string>{"all", "matrices"});
}

void check_files(const train::TrainRequest& request) {
  if (!request.export_to.empty()) weights::format_for(request.export_to);
  check_can_be_written("--export", request.export_to);
  check_can_be_written("--summary", request.summary_file);
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
  auto data = written.data;
  request.dataset = data.dataset;
  if (!written.image_size.empty()) {
    const auto size = parse_image_size("train", written.image_size);
    if (data.dataset == data::kSyntheticSet) {
      data.image_size = written.image_size;
    } else {
      request.image_size = data::ImageSize{size.height, size.width};
    }
  }
  request.set = set_options("train", data);
}

train::TrainRequest decide_request(const TrainOptions& written) {
  auto request = written.request;
  decide_data(written, request);
  request.model.seed = request.seed;
  request.optimizer = decide_optimizer(written);
  request.threads_per_device = written.launch.parsed.run.threads_per_device;
  if (written.sync_loader) request.loader_mode = data::LoaderMode::Sync;
  return request;
}

/// The rest of the launcher's options: what the trainer is told counts for the job as well.
RunArguments decide_job(const TrainOptions& written) {
  auto job = decide("train", written.launch);
  job.run.num_replicas = written.request.replicas;
  job.run.log_dir = written.request.log_dir;
  return job;
}

std::vector<GivenOption> given_options(const CLI::App& app) {
  std::vector<GivenOption> given;
  for (const auto* option : app.get_options()) {
    if (option->count() == 0) continue;
    const bool is_flag = option->get_expected_min() == 0;
    const auto& value = option->results().back();
    const bool is_bare = is_flag && value == "true";
    given.push_back(
        {"--" + option->get_lnames().front(), is_bare ? std::nullopt : std::optional(value)});
  }
  return given;
}

}  // namespace

std::optional<TrainArguments> parse_train_arguments(const std::vector<std::string>& arguments,
                                                    const topology::Identity& identity) {
  TrainOptions written;
  CLI::App app("Trains a network, with many replicas at once.", "train");
  set_usage(app, "train [options]");
  app.footer(kFooter);
  add_train_options(app, written);
  if (parse(app, arguments) == Parsed::HelpShown) return std::nullopt;

  check_names(written);
  decide_words(written, written.request);
  check_conflicts(app, written, identity);
  check_device(written.device);
  check_files(written.request);
  return TrainArguments{.request = decide_request(written),
                        .job = decide_job(written),
                        .vector_unit = decide_vector_unit(written.cpu_features),
                        .given = given_options(app)};
}

}  // namespace lockstep::cli
