#include "lockstep/cli/train_conflicts.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/resume.h"
#include "lockstep/cli/train_start.h"
#include "lockstep/data/sampling/batch_shape.h"
#include "lockstep/data/sets/set_names.h"

namespace lockstep::cli {
namespace {

using topology::LaunchedBy;

void require(const TrainOptions& written, bool holds, const std::string& what,
             const std::string& hint) {
  if (holds) return;
  throw Error(ErrorKind::Options, fmt::format("{}: {}", name_of(written.command), what), hint);
}

/// An option that means something only where another has a certain value.
struct Companion {
  const char* option;
  const char* works_with;
  bool is_there;
  std::string found;
};

bool names_a_path(const std::string& resume) {
  return checkpoint::parse_resume(resume).from == checkpoint::Resume::From::Path;
}

void check_companions(const CLI::App& app, const TrainOptions& written,
                      std::span<const Companion> companions) {
  for (const auto& [option, works_with, is_there, found] : companions) {
    require(written, is_there || app.count(option) == 0,
            fmt::format("{} works with {}, but {}", option, works_with, found),
            fmt::format("give {}, or leave {} out", works_with, option));
  }
}

void check_companions(const CLI::App& app, const TrainOptions& written) {
  const auto& request = written.request;
  const auto kind = request.schedule.kind;
  const bool is_sgd = written.optimizer == "sgd";
  const bool has_synthetic_data = written.data.dataset == data::kSyntheticSet;
  const auto optimizer = "--optimizer is " + written.optimizer;
  const auto schedule = "--schedule is " + written.schedule;
  const auto dataset = "--dataset is " + written.data.dataset;
  const Companion companions[] = {
      {"--momentum", "--optimizer sgd", is_sgd, optimizer},
      {"--nesterov", "--optimizer sgd", is_sgd, optimizer},
      {"--nesterov", "a --momentum above 0", written.momentum > 0, "--momentum is 0"},
      {"--decay-of", "a --weight-decay above 0", written.weight_decay > 0, "--weight-decay is 0"},
      {"--step-epochs", "--schedule step", kind == ScheduleKind::Step, schedule},
      {"--step-factor", "--schedule step", kind == ScheduleKind::Step, schedule},
      {"--final-lr-factor", "--schedule cosine or linear",
       kind == ScheduleKind::Cosine || kind == ScheduleKind::Linear, schedule},
      {"--half", "--precision 16.16 or 16.32", request.precision != Precision::P32_32,
       "--precision is " + written.precision},
      {"--size", "--dataset synthetic", has_synthetic_data, dataset},
      {"--classes", "--dataset synthetic", has_synthetic_data, dataset},
      {"--data-seed", "--dataset synthetic", has_synthetic_data, dataset},
      {"--checkpoint-every", "--checkpoint-dir", !request.checkpoint_dir.empty(), "none is given"},
      {"--checkpoint-keep", "--checkpoint-dir", !request.checkpoint_dir.empty(), "none is given"},
      {"--resume", "--checkpoint-dir, or the path of a checkpoint",
       !request.checkpoint_dir.empty() || names_a_path(written.resume), "neither is given"},
      {"--digest-every", "--log-dir", request.digest_every == 0 || !request.log_dir.empty(),
       "none is given"},
  };
  check_companions(app, written, companions);
}

void check_companions_of_evaluation(const CLI::App& app, const TrainOptions& written) {
  const auto& evaluation = written.evaluation;
  const auto dataset = "--dataset is " + written.data.dataset;
  const bool is_synthetic = written.data.dataset == data::kSyntheticSet;
  const bool is_pack = written.data.dataset.ends_with(".pack");
  const Companion companions[] = {
      {"--half", "--precision 16.16 or 16.32", written.request.precision != Precision::P32_32,
       "--precision is " + written.precision},
      {"--size", "--dataset synthetic", is_synthetic, dataset},
      {"--classes", "--dataset synthetic", is_synthetic, dataset},
      {"--data-seed", "--dataset synthetic", is_synthetic, dataset},
      {"--weights", "--checkpoint", !evaluation.checkpoint.empty(), "none is given"},
      {"--split", "a dataset that is not a .pack", !is_pack || evaluation.has_set_of_training,
       dataset},
  };
  check_companions(app, written, companions);
}

void check_weights(const TrainOptions& written) {
  const auto& model = written.request.model;
  const bool has_file = !model.init_from.empty();
  const bool has_checkpoint = !written.evaluation.checkpoint.empty();
  require(written, has_file || has_checkpoint || model.model.ends_with(".pt"),
          "expected weights, found neither --init-from nor --checkpoint",
          "--init-from FILE, or --checkpoint DIR");
  require(written, !has_file || !has_checkpoint, "expected --init-from or --checkpoint, found both",
          "leave one of them out");
}

void check_threads(const TrainOptions& written) {
  const int threads = written.launch.parsed.run.threads_per_device.value_or(1);
  require(written, threads >= 1,
          fmt::format("--threads-per-device is {}, expected at least 1", threads),
          "--threads-per-device 1");
}

void check_loading(const TrainOptions& written) {
  require(written, !written.async_loader || !written.sync_loader,
          "expected --async-dataloader or --sync-dataloader, found both",
          "leave one of them out; without either, loading is asynchronous");
  const int workers = written.request.workers.value_or(0);
  require(written, workers == 0 || !written.sync_loader,
          fmt::format("--num-workers is {}, but --sync-dataloader has none", workers),
          "leave --sync-dataloader out, or give --num-workers 0");
}

void check_schedule(const TrainOptions& written) {
  const auto& schedule = written.request.schedule;
  if (written.request.epochs == 0) return;
  const auto epochs = static_cast<double>(written.request.epochs);
  require(written, schedule.warmup_epochs < epochs,
          fmt::format("--warmup-epochs is {}, which leaves nothing of --epochs {}",
                      schedule.warmup_epochs, epochs),
          "lower --warmup-epochs, or raise --epochs");
  const auto first_fall = schedule.warmup_epochs + schedule.step_epochs;
  require(written, schedule.kind != ScheduleKind::Step || first_fall < epochs,
          fmt::format("--schedule step falls first after {} epochs, which --epochs {} does not "
                      "reach",
                      first_fall, epochs),
          "lower --step-epochs, or raise --epochs");
}

/// "32x32x1" says more than a resized picture can have.
void check_image_size(const TrainOptions& written) {
  const auto last = written.image_size.rfind('x');
  const bool has_channels = last != written.image_size.find('x');
  require(written, !has_channels || written.data.dataset == data::kSyntheticSet,
          fmt::format("--image-size is {}, but the channels of --dataset {} are its own",
                      written.image_size, written.data.dataset),
          fmt::format("--image-size {}", written.image_size.substr(0, last)));
}

void check_instances(const TrainOptions& written) {
  const int instances = written.launch.parsed.run.num_instances;
  require(written, instances >= 1,
          fmt::format("--num-instances is {}, expected at least 1", instances),
          "--num-instances 1");
  const int replicas = written.request.replicas.value_or(instances);
  require(
      written, instances <= replicas,
      fmt::format("{} instances need a replica each, but --replicas is {}", instances, replicas),
      fmt::format("raise --replicas to {} or lower --num-instances to {}", instances, replicas));
}

void check_transport(const TrainOptions& written) {
  const int instances = written.launch.parsed.run.num_instances;
  require(written, instances == 1 || written.launch.transport != "local",
          fmt::format("--transport local stays within one process, but --num-instances is {}",
                      instances),
          "--transport shm, or --num-instances 1");
}

void check_batches(const TrainOptions& written, const topology::Identity& identity) {
  const auto& request = written.request;
  const bool is_launched = identity.launched_by != LaunchedBy::Nobody;
  const int alone = request.replicas.value_or(written.launch.parsed.run.num_instances);
  data::check({.batch_size = request.batch_size,
               .gradient_accumulation = request.gradient_accumulation,
               .device_iterations = request.device_iterations,
               .replicas = is_launched ? identity.num_replicas : alone});
}

/// "8 replicas are set by the launcher".
std::string set_by_launcher(int count, const char* noun, const char* of_what = "") {
  const bool is_one = count == 1;
  return fmt::format("{} {}{}{} {} set by the launcher", count, noun, is_one ? "" : "s", of_what,
                     is_one ? "is" : "are");
}

/// Options that say how cores are divided among replicas.
constexpr std::array<std::string_view, 2> kDivision{"--replicas", "--devices-per-replica"};

/// Accepts the number of threads that the launcher has set, and refuses any other number. Results
/// depend on this number, so a user may want to state it in the command that trains, too.
void check_launched_threads(const TrainOptions& written, const topology::Identity& identity) {
  const auto& given = written.launch.parsed.run.threads_per_device;
  if (!given || !identity.threads_per_device) return;
  require(written, *given == *identity.threads_per_device,
          fmt::format("--threads-per-device is set by the launcher ({}), found {}",
                      *identity.threads_per_device, *given),
          "pass the option to 'lockstep run' instead");
}

/// Refuses options that the launcher has already decided.
void check_launched(const CLI::App& app, const TrainOptions& written,
                    const topology::Identity& identity) {
  constexpr const char* kStarted = "a launcher has started this process";
  const bool is_ours = identity.launched_by == LaunchedBy::Lockstep;
  const bool divides_cores = written.command == TrainCommand::Eval;  // whatever the launcher set
  const auto refuse = [&](const char* option, const std::string& why, const char* launchers) {
    if (divides_cores && std::ranges::find(kDivision, option) != kDivision.end()) return;
    require(written, app.count(option) == 0, fmt::format("{}, found {}", why, option),
            is_ours ? fmt::format("pass {} to it instead", launchers)
                    : fmt::format("leave {} out, or start it with 'lockstep run {}'", option,
                                  launchers));
  };
  refuse("--replicas", set_by_launcher(identity.num_replicas, "replica"), "--num-replicas");
  refuse("--devices-per-replica",
         set_by_launcher(identity.devices_per_replica, "device", " per replica"),
         "--devices-per-replica");
  refuse("--num-instances", set_by_launcher(identity.num_instances, "instance"), "--num-instances");
  if (!divides_cores) check_launched_threads(written, identity);
  // Other launchers have none.
  if (is_ours) refuse("--cache-path", kStarted, "--cache-path");
  for (const auto* const option : kLauncherOptions) {
    refuse(option, kStarted, option);
  }
}

/// How a replica may get so many devices; `instead` is what does without.
std::string hint_for_devices(std::size_t devices, const std::string& instead,
                             const topology::Identity& identity) {
  const auto option = fmt::format("--devices-per-replica {}", devices);
  switch (identity.launched_by) {
    case LaunchedBy::Nobody:
      return fmt::format("give {}, or {}", option, instead);
    case LaunchedBy::Lockstep:
      return fmt::format("pass {} to it, or {}", option, instead);
    default:
      return fmt::format("{}, or start it with 'lockstep run {}'", instead, option);
  }
}

void check_stages(const CLI::App& app, const TrainOptions& written,
                  const topology::Identity& identity) {
  const auto named = written.request.split.size();
  const bool is_launched = identity.launched_by != LaunchedBy::Nobody;
  const bool is_set = is_launched || app.count("--devices-per-replica") > 0;
  const int set =
      is_launched ? identity.devices_per_replica : written.launch.parsed.run.devices_per_replica;
  const auto devices = is_set || named == 0 ? static_cast<std::size_t>(set) : named + 1;
  const auto found = is_launched ? set_by_launcher(set, "device", " per replica")
                                 : fmt::format("--devices-per-replica is {}", set);

  require(written, named == 0 || devices == named + 1,
          fmt::format("--split names {} block{}, which makes {} stages, but {}", named,
                      named == 1 ? "" : "s", named + 1, found),
          hint_for_devices(
              named + 1,
              devices == 1 ? "leave --split out" : fmt::format("name {} for --split", devices - 1),
              identity));
  require(written, app.count("--pipeline") == 0 || devices > 1,
          fmt::format("--pipeline works with several devices per replica, but {}", found),
          hint_for_devices(2, "leave --pipeline out", identity));
}

void check_evaluation(const CLI::App& app, const TrainOptions& written) {
  check_weights(written);
  check_companions_of_evaluation(app, written);
  check_loading(written);
  check_image_size(written);
  check_instances(written);
  check_transport(written);
  check_threads(written);
}

}  // namespace

void check_conflicts(const CLI::App& app, const TrainOptions& written,
                     const topology::Identity& identity) {
  if (identity.launched_by != LaunchedBy::Nobody) check_launched(app, written, identity);
  if (written.command == TrainCommand::Eval) return check_evaluation(app, written);
  check_companions(app, written);
  check_loading(written);
  check_schedule(written);
  check_image_size(written);
  check_instances(written);
  check_transport(written);
  check_stages(app, written, identity);
  check_batches(written, identity);
}

}  // namespace lockstep::cli
