#include "lockstep/cli/train_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/version.h"
#include "lockstep/checkpoint/resume.h"
#include "lockstep/cli/real_number.h"
#include "lockstep/cli/suggested_words.h"
#include "lockstep/cli/train_choices.h"
#include "lockstep/cli/vector_unit.h"
#include "lockstep/cli/whole_number.h"
#include "lockstep/data/sets/set_names.h"
#include "lockstep/nn/zoo/network_names.h"

namespace lockstep::cli {
namespace {

void add_model_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& model = to.request.model;
  app.add_option("--model", model.model,
                 fmt::format("{}, or a TorchScript file that ends in .pt",
                             fmt::join(nn::kNetworkNames, ", ")))
      ->check(suggest(nn::kNetworkNames, "*.pt"))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  app.add_option(
         "--init-from", model.init_from,
         "first weights from a .safetensors file, or from a state_dict that torch.save wrote")
      ->type_name("FILE")
      ->group(group);
}

void add_image_size_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--image-size", to.image_size,
                 "pictures are resized to it; synthetic ones are made so, HxWxC too [as they are]")
      ->type_name("HxW")
      ->group(group);
}

void add_picture_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  add_image_size_option(app, to, group);
  app.add_option("--augment", to.augment,
                 "how pictures are varied: none, flip, or standard: flip and random crop")
      ->check(suggest(kAugments))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_option("--limit-train", to.request.limit_train,
                 "train with N samples that the seed chooses [all]")
      ->check(whole_number(1))
      ->type_name("N")
      ->group(group);
  app.add_option("--limit-test", to.request.limit_test,
                 "test with N samples that the seed chooses [all]")
      ->check(whole_number(1))
      ->type_name("N")
      ->group(group);
}

void add_batch_size_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--batch-size", to.request.batch_size, "samples of a micro-batch on one replica")
      ->check(whole_number(1))
      ->type_name("B")
      ->group(group)
      ->capture_default_str();
}

void add_replicas_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--replicas", to.request.replicas,
                 "copies of the model, each with batches of its own; under a launcher they are its "
                 "--num-replicas [one per instance]")
      ->check(whole_number(1))
      ->type_name("R")
      ->group(group);
}

void add_batch_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  const auto add = [&](const char* name, std::int64_t& value, const char* letter,
                       const char* description) {
    app.add_option(name, value, description)
        ->check(whole_number(1))
        ->type_name(letter)
        ->group(group)
        ->capture_default_str();
  };
  auto& request = to.request;
  add_batch_size_option(app, to, group);
  add("--gradient-accumulation", request.gradient_accumulation, "G",
      "micro-batches of an optimizer step on one replica");
  add("--device-iterations", request.device_iterations, "D",
      "optimizer steps of an iteration, one tick of the progress bar");
  app.add_option("--epochs", request.epochs,
                 "times through the set, each without what fills no iteration; 0 only tests")
      ->check(whole_number(0))
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  add_replicas_option(app, to, group);
}

void add_optimizer_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--optimizer", to.optimizer, "sgd, adam, adamw or lamb")
      ->check(suggest(optimizer_names()))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  app.add_option("--lr", to.lr, "learning rate [0.1 for sgd, 0.001 for others]")
      ->check(real_number(RealRange::NotNegative))
      ->type_name("RATE")
      ->group(group);
  app.add_option("--momentum", to.momentum, "of sgd")
      ->check(real_number(RealRange::FromZeroToOne))
      ->type_name("SHARE")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--nesterov", to.nesterov, "of sgd: look ahead along the momentum")->group(group);
  app.add_option("--weight-decay", to.weight_decay,
                 "pull of weights to zero; apart from the gradient with adamw and lamb")
      ->check(real_number(RealRange::NotNegative))
      ->type_name("RATE")
      ->group(group)
      ->capture_default_str();
  app.add_option("--decay-of", to.decay_of,
                 "what it pulls: all, or matrices: neither biases nor the scales of norms")
      ->check(suggest(decay_names()))
      ->type_name("WHICH")
      ->group(group)
      ->capture_default_str();
  app.add_option("--clip-norm", to.clip_norm,
                 "scale gradients down to this norm over all parameters [no limit]")
      ->check(real_number(RealRange::Positive))
      ->type_name("NORM")
      ->group(group);
  app.add_option("--ema-decay", to.ema_decay,
                 "keep an average of the weights, this share of it after each step [none]")
      ->check(real_number(RealRange::BetweenZeroAndOne))
      ->type_name("SHARE")
      ->group(group);
}

void add_schedule_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& schedule = to.request.schedule;
  app.add_option("--schedule", to.schedule,
                 "how the learning rate goes: constant, step, cosine or linear")
      ->check(suggest(schedule_names()))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  const auto add = [&](const char* name, double& value, RealRange range, const char* type,
                       const char* description) {
    app.add_option(name, value, description)
        ->check(real_number(range))
        ->type_name(type)
        ->group(group)
        ->capture_default_str();
  };
  add("--warmup-epochs", schedule.warmup_epochs, RealRange::NotNegative, "N",
      "rise from near zero first, for so many epochs or parts of one");
  add("--step-epochs", schedule.step_epochs, RealRange::Positive, "N",
      "of --schedule step: how often it falls");
  add("--step-factor", schedule.step_factor, RealRange::NotNegative, "FACTOR",
      "of --schedule step: to how much of itself");
  add("--final-lr-factor", schedule.final_factor, RealRange::NotNegative, "FACTOR",
      "of cosine and linear: where it ends, as a part of --lr");
  add("--label-smoothing", to.request.label_smoothing, RealRange::FromZeroToOne, "SHARE",
      "of each label that is spread over all classes");
}

/// An option that accepts one of a few words.
void add_word_option(CLI::App& app, const std::string& group, const char* name, std::string& word,
                     const auto& values, const char* type, const char* description) {
  app.add_option(name, word, description)
      ->check(suggest(values))
      ->type_name(type)
      ->group(group)
      ->capture_default_str();
}

void add_precision_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  add_word_option(app, group, "--precision", to.precision, kPrecisions, "A.B",
                  "bits of input and model: 32.32, 16.32 or 16.16");
  add_word_option(app, group, "--half", to.half, kHalves, "TYPE", "which 16 bits: bf16 or fp16");
}

void add_seed_option(CLI::App& app, TrainOptions& to, const std::string& group,
                     const std::string& help) {
  app.add_option("--seed", to.request.seed, help)
      ->check(whole_number())
      ->group(group)
      ->capture_default_str();
}

void add_arithmetic_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  add_precision_options(app, to, group);
  add_word_option(app, group, "--reduction", to.reduction, kReductions, "HOW",
                  "gradients of micro-batches and replicas become their mean or their sum");
  add_word_option(app, group, "--reduction-order", to.reduction_order, kReductionOrders, "HOW",
                  "ordered: the same bits on any layout; fast: as the transport likes best");
  app.add_flag("--deterministic", to.deterministic,
               "compute the same bits in every run; CPUs always do")
      ->group(group);
  add_seed_option(app, to, group, "seed of the first weights, the order, augmentation and dropout");
}

void add_loading_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_flag("--async-dataloader", to.async_loader,
               "workers fill batches ahead of use; this is the default")
      ->group(group);
  app.add_flag("--sync-dataloader", to.sync_loader, "a batch is filled when it is asked for")
      ->group(group);
  app.add_option("--num-workers", to.request.workers,
                 "threads of each instance that fill batches [its cores, but one]")
      ->check(whole_number())
      ->type_name("N")
      ->group(group);
  app.add_flag("--eight-bit-io", to.request.eight_bit_io,
               "pictures travel as bytes, and become numbers on the device")
      ->group(group);
}

void add_stage_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  add_stage_options(app, to.launch, group);
  app.add_option("--split", to.split,
                 "names of the blocks that begin a stage, as 'lockstep plan' shows them [the "
                 "split whose slowest stage is fastest]")
      ->type_name("BLOCK[,BLOCK]")
      ->group(group);
  app.add_option("--pipeline", to.pipeline,
                 "how stages take turns: 1f1b, gpipe: all forward, then all backward, or "
                 "sequential: one at a time")
      ->check(suggest(kPipelineSchedules))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_option("--recompute", to.recompute,
                 "compute activations a second time instead of keeping them: bare or stage keeps "
                 "the input of each stage, blocks that of each block")
      ->expected(0, 1)
      ->default_str(std::string(name_of(Recompute::Stage)))
      ->check(suggest(kRecomputes))
      ->option_text("[HOW]")
      ->group(group);
  app.add_option("--overlap", to.overlap,
                 "between hosts, send gradients while others are still computed: on or off; "
                 "results do not depend on it")
      ->check(suggest(kOverlaps))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
}

void add_gpu_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--fuse", to.fuse,
                 "compute micro-batches as one batch, each with its own batch norm: auto: "
                 "all of an instance, with --deterministic all of one replica; or off")
      ->check(suggest(kFuses))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--data-on-device", to.request.data_on_device,
               "keep the training set in the GPU's memory and augment there; it has to fit")
      ->group(group);
  app.add_option("--gpu-transport", to.gpu_transport,
                 "where gradients of several instances are added up: host, or nccl: on the GPUs, "
                 "of which each instance then needs its own; auto: nccl where that is so")
      ->check(suggest(kGpuTransports))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_option("--snapshot-every", to.request.snapshot_every,
                 "launches of steps after which the state is copied to the host's memory; a "
                 "crash costs as many")
      ->check(whole_number(1))
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
}

void add_placement_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--device", to.device,
                 "what computes: cpu, cuda, or auto: a GPU where build and machine have one")
      ->check(suggest(device_names()))
      ->type_name("KIND")
      ->group(group)
      ->capture_default_str();
  if (built_with_cuda() && to.command != TrainCommand::Eval) add_gpu_options(app, to, group);
  app.add_option("--cpu-features", to.cpu_features,
                 "vector units for libraries, part of what results depend on: auto, sse4, avx2 or "
                 "avx512")
      ->check(suggest(kVectorUnits))
      ->type_name("UNIT")
      ->group(group)
      ->capture_default_str();
  add_size_options(app, to.launch, group);
  app.get_option("--threads-per-device")
      ->description(
          "threads of each device; results depend on this number; under 'lockstep run' it must "
          "equal the launcher's [cores of a host / most devices on any host]");
  add_host_options(app, to.launch, group);
  add_bind_options(app, to.launch, group);
  add_failure_options(app, to.launch, group);
}

void add_checkpoint_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& request = to.request;
  app.add_option("--checkpoint-dir", request.checkpoint_dir,
                 "take checkpoints, into folders of this one; SIGUSR1 takes one more, SIGTERM one "
                 "before the end")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--checkpoint-every", request.checkpoint_every,
                 "how often: 500 (optimizer steps), '2 epochs', 30s, 10min")
      ->type_name("INTERVAL")
      ->group(group)
      ->capture_default_str();
  app.add_option("--checkpoint-keep", request.checkpoint_keep,
                 "so many of the last stay, beside the one with the best test accuracy")
      ->check(whole_number(1))
      ->type_name("K")
      ->group(group)
      ->capture_default_str();
  app.add_option("--resume", to.resume,
                 "go on from the newest whole checkpoint of --checkpoint-dir, with the same bits; "
                 "auto: begin where there is none; or the path of one")
      ->expected(0, 1)
      ->default_str(std::string(checkpoint::kNewest))
      ->check(suggest(std::array{"auto"}, "*/"))
      ->option_text("[auto|PATH]")
      ->group(group);
}

void add_log_dir_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--log-dir", to.request.log_dir,
                 "digests are written there, and by the launcher each stream and events.jsonl")
      ->type_name("DIR")
      ->group(group);
}

void add_json_option(CLI::App& app, TrainOptions& to, const std::string& group,
                     const char* description) {
  app.add_option("--json", to.json_file, description)->type_name("FILE")->group(group);
}

void add_output_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& request = to.request;
  app.add_option("--eval-every", request.eval_every, "test every N epochs; 0: at the end alone")
      ->check(whole_number())
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_option("--digest-every", request.digest_every,
                 "write a digest of the weights every N optimizer steps, to --log-dir; 0: never")
      ->check(whole_number())
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  add_log_dir_option(app, to, group);
  app.add_option("--export", request.export_to,
                 "write the weights in the end: .safetensors, or .pt and .pth for torch.load")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--summary", request.summary_file, "also write the summary as JSON")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--report", request.report_file,
                 "at the end, write a report as one HTML page: results, curves, where the time "
                 "went, events, environment, command and options; also if the run is stopped")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--trace", request.trace_file,
                 "write what the threads of all instances did, and when, in the end; Perfetto "
                 "(ui.perfetto.dev) and Chrome show it")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--tensorboard", request.tensorboard_dir,
                 "write losses and metrics for TensorBoard while training")
      ->type_name("DIR")
      ->group(group);
  add_console_options(app, to.launch, group);
  if (to.command == TrainCommand::Plan) {
    add_json_option(app, to, group, "also write the plan as JSON");
  }
}

/// What is evaluated: weights and a part of a data set.
void add_evaluated_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& request = to.request;
  add_model_options(app, to, group);
  app.get_option("--init-from")
      ->description("weights from a .safetensors file, or from a state_dict that torch.save wrote");
  app.add_option("--checkpoint", to.evaluation.checkpoint,
                 "weights of a checkpoint, or of the newest complete one in a folder; it also sets "
                 "--model, --dataset, --image-size, --precision, --half, --eight-bit-io and --seed "
                 "if they are not given")
      ->type_name("DIR")
      ->group(group);
  add_word_option(app, group, "--weights", to.checkpoint_weights, kCheckpointWeights, "WHICH",
                  "weights of the checkpoint: trained, average (of --ema-decay), or auto: the "
                  "average if there is one");
  add_set_options(app, to.data, group);
  app.add_option("--split", to.evaluated_split, "test or train; a .pack is one split")
      ->check(suggest(split_names()))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  app.add_option("--limit", request.limit_test,
                 "evaluate N samples that the seed chooses; train uses the same ones with "
                 "--limit-train or --limit-test [all]")
      ->check(whole_number(1))
      ->type_name("N")
      ->group(group);
  app.add_option("--samples", to.evaluated_samples,
                 "evaluate the samples FIRST, FIRST + 1, ..., END - 1, counted from 0 [all]")
      ->type_name("FIRST:END")
      ->group(group);
  add_image_size_option(app, to, group);
  app.add_option("--normalize-as", request.normalize_as,
                 "normalize images as a training with --dataset NAME does; for a .pack of that "
                 "dataset [the dataset of the checkpoint, else --dataset]")
      ->check(suggest(data::set_names(), "*.pack"))
      ->type_name("NAME")
      ->group(group);
  add_synthetic_options(app, to.data, group);
}

void add_evaluation_options(CLI::App& app, TrainOptions& to) {
  add_evaluated_options(app, to, "Weights and data");
  const std::string computation = "Computation";
  add_batch_size_option(app, to, computation);
  app.get_option("--batch-size")
      ->description("samples of a batch; the last digits of the loss depend on it");
  add_replicas_option(app, to, computation);
  app.get_option("--replicas")
      ->description(
          "batches that are computed at the same time; results do not depend on it [one "
          "for each device]");
  add_precision_options(app, to, computation);
  add_seed_option(app, to, computation, "chooses the samples of --limit");
  add_loading_options(app, to, "Loading");
  add_placement_options(app, to, "Placement");
  app.get_option("--num-instances")->description("processes; results do not depend on it");
  app.get_option("--threads-per-device")
      ->description(
          "cores that compute one batch; the last digits of the loss depend on it, but "
          "not on what a launcher has set [1]");
  const std::string output = "Output";
  add_json_option(app, to, output,
                  "also write everything as JSON, with the whole confusion matrix");
  add_log_dir_option(app, to, output);
  app.get_option("--log-dir")
      ->description("the launcher writes each stream and events.jsonl there");
  add_console_options(app, to.launch, output);
}

}  // namespace

std::string_view name_of(TrainCommand command) noexcept {
  switch (command) {
    case TrainCommand::Plan:
      return "plan";
    case TrainCommand::Eval:
      return "eval";
    case TrainCommand::Train:
      break;
  }
  return "train";
}

TrainOptions::TrainOptions(TrainCommand of)
    : command(of),
      augment(data::name_of(request.augment)),
      schedule(name_of(request.schedule.kind)),
      precision(name_of(request.precision)),
      half(name_of(request.half)),
      reduction(name_of(request.reduction)),
      reduction_order(name_of(request.order)),
      pipeline(name_of(request.pipeline)),
      evaluated_split(data::name_of(evaluation.split)),
      checkpoint_weights(name_of(evaluation.weights)) {
  data.dataset = request.dataset;
  request.command = name_of(command);
}

void add_train_options(CLI::App& app, TrainOptions& to) {
  if (to.command == TrainCommand::Eval) return add_evaluation_options(app, to);
  const std::string data = "Model and data";
  add_model_options(app, to, data);
  add_set_options(app, to.data, data);
  app.get_option("--cache-path")->description("where packs and plans are kept [the user's cache]");
  add_picture_options(app, to, data);
  add_synthetic_options(app, to.data, data);
  add_batch_options(app, to, "Batches");
  const std::string training = "Training";
  add_optimizer_options(app, to, training);
  add_schedule_options(app, to, training);
  add_arithmetic_options(app, to, training);
  add_loading_options(app, to, "Loading");
  add_stage_options(app, to, "Model parallelism");
  add_placement_options(app, to, "Placement");
  add_checkpoint_options(app, to, "Checkpoints");
  add_output_options(app, to, "Output");
}

}  // namespace lockstep::cli
