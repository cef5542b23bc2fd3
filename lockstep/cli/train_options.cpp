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
  app.add_option("--init-from", model.init_from,
                 "initial weights: a .safetensors file, or a state_dict that torch.save wrote")
      ->type_name("FILE")
      ->group(group);
}

void add_image_size_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--image-size", to.image_size,
                 "size to which images are resized; for synthetic images, the size of the images, "
                 "also with channels (HxWxC) [the size in the dataset; synthetic: 32x32x3]")
      ->type_name("HxW")
      ->group(group);
}

void add_picture_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  add_image_size_option(app, to, group);
  app.add_option("--augment", to.augment,
                 "image augmentation: none, flip, or standard (flip and random crop)")
      ->check(suggest(kAugments))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  app.add_option("--limit-train", to.request.limit_train,
                 "train on N samples that the seed chooses [all]")
      ->check(whole_number(1))
      ->type_name("N")
      ->group(group);
  app.add_option("--limit-test", to.request.limit_test,
                 "evaluate N samples that the seed chooses [all]")
      ->check(whole_number(1))
      ->type_name("N")
      ->group(group);
}

void add_batch_size_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option("--batch-size", to.request.batch_size,
                 "number of samples in a micro-batch of one replica")
      ->check(whole_number(1))
      ->type_name("B")
      ->group(group)
      ->capture_default_str();
}

void add_replicas_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option(
         "--replicas", to.request.replicas,
         "number of copies of the model, each with its own batches; under 'lockstep run', pass "
         "--num-replicas to the launcher instead [one per instance]")
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
      "number of micro-batches in an optimizer step of one replica");
  add("--device-iterations", request.device_iterations, "D",
      "number of optimizer steps in an iteration, which is one tick of the progress bar");
  app.add_option(
         "--epochs", request.epochs,
         "number of epochs; samples that do not fill an iteration are skipped; 0 only evaluates")
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
  app.add_option("--momentum", to.momentum, "momentum of sgd")
      ->check(real_number(RealRange::FromZeroToOne))
      ->type_name("SHARE")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--nesterov", to.nesterov, "use Nesterov momentum with sgd")->group(group);
  app.add_option("--weight-decay", to.weight_decay,
                 "weight decay; decoupled from the gradient for adamw and lamb")
      ->check(real_number(RealRange::NotNegative))
      ->type_name("RATE")
      ->group(group)
      ->capture_default_str();
  app.add_option("--decay-of", to.decay_of,
                 "parameters with weight decay: all, or matrices (no biases, no scales of norms)")
      ->check(suggest(decay_names()))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  app.add_option("--clip-norm", to.clip_norm,
                 "scale the gradients down if their norm over all parameters is larger [no limit]")
      ->check(real_number(RealRange::Positive))
      ->type_name("NORM")
      ->group(group);
  app.add_option("--ema-decay", to.ema_decay,
                 "keep an exponential moving average of the weights with this decay per step, and "
                 "evaluate and export the average [none]")
      ->check(real_number(RealRange::BetweenZeroAndOne))
      ->type_name("SHARE")
      ->group(group);
}

void add_schedule_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& schedule = to.request.schedule;
  app.add_option("--schedule", to.schedule,
                 "learning rate schedule: constant, step, cosine or linear")
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
      "epochs of warm-up; fractions are possible");
  add("--step-epochs", schedule.step_epochs, RealRange::Positive, "N",
      "for --schedule step: epochs between two reductions");
  add("--step-factor", schedule.step_factor, RealRange::NotNegative, "FACTOR",
      "for --schedule step: factor of each reduction");
  add("--final-lr-factor", schedule.final_factor, RealRange::NotNegative, "FACTOR",
      "for cosine and linear: final learning rate divided by --lr");
  add("--label-smoothing", to.request.label_smoothing, RealRange::FromZeroToOne, "SHARE",
      "share of each label that is spread over all classes");
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
                  "bits of the input and of the model: 32.32, 16.32 or 16.16");
  add_word_option(app, group, "--half", to.half, kHalves, "TYPE",
                  "16-bit type for --precision 16.32 and 16.16: bf16 or fp16");
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
  add_word_option(app, group, "--reduction", to.reduction, kReductions, "NAME",
                  "how gradients of micro-batches and replicas are combined: mean or sum");
  add_word_option(app, group, "--reduction-order", to.reduction_order, kReductionOrders, "NAME",
                  "ordered: the same bits on any layout; fast: the fastest order of the transport");
  app.add_flag("--deterministic", to.deterministic,
               "compute the same bits in every run on a GPU; CPUs always do")
      ->group(group);
  add_seed_option(
      app, to, group,
      "seed of the initial weights, the order of the samples, augmentation and dropout");
}

void add_loading_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_flag("--async-dataloader", to.async_loader,
               "load batches in advance with worker threads; this is the default")
      ->group(group);
  app.add_flag("--sync-dataloader", to.sync_loader, "load each batch when it is needed")
      ->group(group);
  app.add_option("--num-workers", to.request.workers,
                 "number of threads in each instance that load batches [its cores minus one]")
      ->check(whole_number())
      ->type_name("N")
      ->group(group);
  app.add_flag("--eight-bit-io", to.request.eight_bit_io,
               "transfer images as bytes; convert them on the device")
      ->group(group);
}

void add_stage_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  add_stage_options(app, to.launch, group);
  app.add_option(
         "--split", to.split,
         "names of the blocks that begin a stage; 'lockstep plan' shows the names [the split "
         "whose slowest stage is fastest]")
      ->type_name("BLOCK[,BLOCK]")
      ->group(group);
  app.add_option(
         "--pipeline", to.pipeline,
         "order in which stages compute: 1f1b (one forward, one backward), gpipe (all forward, "
         "then all backward) or sequential (one stage at a time)")
      ->check(suggest(kPipelineSchedules))
      ->type_name("ORDER")
      ->group(group)
      ->capture_default_str();
  app.add_option(
         "--recompute", to.recompute,
         "recompute activations in the backward pass instead of storing them; stage (default): "
         "store the input of each stage; blocks: store the input of each block")
      ->expected(0, 1)
      ->default_str(std::string(name_of(Recompute::Stage)))
      ->check(suggest(kRecomputes))
      ->option_text("[stage|blocks]")
      ->group(group);
  app.add_option(
         "--overlap", to.overlap,
         "between hosts, send gradients during the backward pass: on or off; results do not "
         "depend on it")
      ->check(suggest(kOverlaps))
      ->type_name("on|off")
      ->group(group)
      ->capture_default_str();
}

void add_gpu_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option(
         "--fuse", to.fuse,
         "compute several micro-batches as one batch, each with its own batch norm: auto, or "
         "off; auto: all micro-batches of an instance, with --deterministic those of one "
         "replica")
      ->check(suggest(kFuses))
      ->type_name("auto|off")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--data-on-device", to.request.data_on_device,
               "keep the training dataset in GPU memory and augment it there; it has to fit")
      ->group(group);
  app.add_option("--gpu-transport", to.gpu_transport,
                 "where gradients of several instances are summed: host, nccl (on the GPUs; each "
                 "instance needs its own GPU) or auto (nccl if each instance has its own GPU)")
      ->check(suggest(kGpuTransports))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  app.add_option("--snapshot-every", to.request.snapshot_every,
                 "copy the state to host memory after every N iterations; a crash costs at most N "
                 "iterations")
      ->check(whole_number(1))
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
}

void add_placement_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option(
         "--device", to.device,
         "device that computes: cpu, cuda, or auto (a GPU if the build and the machine support it)")
      ->check(suggest(device_names()))
      ->type_name("KIND")
      ->group(group)
      ->capture_default_str();
  if (built_with_cuda() && to.command != TrainCommand::Eval) add_gpu_options(app, to, group);
  app.add_option(
         "--cpu-features", to.cpu_features,
         "vector instructions of the libraries: auto, sse4, avx2 or avx512; results depend on it")
      ->check(suggest(kVectorUnits))
      ->type_name("UNIT")
      ->group(group)
      ->capture_default_str();
  add_size_options(app, to.launch, group);
  app.get_option("--threads-per-device")
      ->description(
          "threads of each device; results depend on it; under 'lockstep run' it must equal the "
          "value of the launcher [cores of a host / largest number of devices on a host]");
  add_host_options(app, to.launch, group);
  add_bind_options(app, to.launch, group);
  add_failure_options(app, to.launch, group);
}

void add_checkpoint_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& request = to.request;
  app.add_option(
         "--checkpoint-dir", request.checkpoint_dir,
         "write checkpoints into subfolders of DIR; SIGUSR1 writes one; SIGTERM writes one and "
         "stops")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--checkpoint-every", request.checkpoint_every,
                 "interval between checkpoints: 500 (optimizer steps), '2 epochs', 30s or 10min")
      ->type_name("INTERVAL")
      ->group(group)
      ->capture_default_str();
  app.add_option("--checkpoint-keep", request.checkpoint_keep,
                 "keep the last K checkpoints and the one with the best test accuracy")
      ->check(whole_number(1))
      ->type_name("K")
      ->group(group)
      ->capture_default_str();
  app.add_option(
         "--resume", to.resume,
         "continue from the newest complete checkpoint of --checkpoint-dir, with the same bits; "
         "auto: start if there is none; or the path of a checkpoint")
      ->expected(0, 1)
      ->default_str(std::string(checkpoint::kNewest))
      ->check(suggest(std::array{"auto"}, "*/"))
      ->option_text("[auto|PATH]")
      ->group(group);
}

void add_log_dir_option(CLI::App& app, TrainOptions& to, const std::string& group) {
  app.add_option(
         "--log-dir", to.request.log_dir,
         "write digests to DIR; the launcher also writes each output stream and events.jsonl there")
      ->type_name("DIR")
      ->group(group);
}

void add_json_option(CLI::App& app, TrainOptions& to, const std::string& group,
                     const char* description) {
  app.add_option("--json", to.json_file, description)->type_name("FILE")->group(group);
}

void add_output_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& request = to.request;
  app.add_option("--eval-every", request.eval_every, "evaluate every N epochs; 0: only at the end")
      ->check(whole_number())
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_option("--digest-every", request.digest_every,
                 "write a digest of the weights to --log-dir every N optimizer steps; 0: never")
      ->check(whole_number())
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  add_log_dir_option(app, to, group);
  app.add_option("--export", request.export_to,
                 "at the end, write the weights: .safetensors, or .pt and .pth for torch.load")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--summary", request.summary_file, "at the end, write the summary as JSON")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--report", request.report_file,
         "at the end, write a report as one HTML page: results, curves, shares of the time, "
         "events, environment, command and options; also if the run is stopped")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--trace", request.trace_file,
         "at the end, write a trace of all instances for Perfetto (ui.perfetto.dev) or Chrome")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--tensorboard", request.tensorboard_dir,
                 "write losses and metrics for TensorBoard during the training")
      ->type_name("DIR")
      ->group(group);
  add_console_options(app, to.launch, group);
  if (to.command == TrainCommand::Plan) {
    add_json_option(app, to, group, "also write the plan as JSON");
  }
}

/// The weights and the samples of an evaluation.
void add_evaluated_options(CLI::App& app, TrainOptions& to, const std::string& group) {
  auto& request = to.request;
  add_model_options(app, to, group);
  app.get_option("--init-from")
      ->description("weights: a .safetensors file, or a state_dict that torch.save wrote");
  app.add_option(
         "--checkpoint", to.evaluation.checkpoint,
         "weights of a checkpoint, or of the newest complete checkpoint in a folder; also sets "
         "--model, --dataset, --image-size, --precision, --half, --eight-bit-io and --seed "
         "if they are not given; for synthetic data, also pass --size and --image-size")
      ->type_name("DIR")
      ->group(group);
  add_word_option(
      app, group, "--weights", to.checkpoint_weights, kCheckpointWeights, "NAME",
      "weights of the checkpoint: trained, average (of --ema-decay) or auto (the average if "
      "there is one)");
  add_set_options(app, to.data, group);
  app.add_option("--split", to.evaluated_split,
                 "part of the dataset: test or train; a .pack contains one split")
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
                 "dataset [the dataset of the checkpoint, otherwise --dataset]")
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
      ->description("number of samples in a batch; the last digits of the loss depend on it");
  add_replicas_option(app, to, computation);
  app.get_option("--replicas")
      ->description(
          "number of batches that are computed at the same time; results do not depend on it "
          "[one for each device]");
  add_precision_options(app, to, computation);
  add_seed_option(app, to, computation, "seed that chooses the samples of --limit");
  add_loading_options(app, to, "Loading");
  add_placement_options(app, to, "Placement");
  app.get_option("--num-instances")
      ->description("number of processes; results do not depend on it");
  app.get_option("--threads-per-device")
      ->description(
          "number of cores that compute one batch; the last digits of the loss depend on it; the "
          "value of a launcher has no effect [1]");
  const std::string output = "Output";
  add_json_option(
      app, to, output,
      "also write all results as JSON, with the confusion matrix of up to 2,000 classes");
  add_log_dir_option(app, to, output);
  app.get_option("--log-dir")
      ->description("the launcher writes each output stream and events.jsonl to DIR");
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
  app.get_option("--cache-path")->description("folder for packs and plans [the user's cache]");
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
