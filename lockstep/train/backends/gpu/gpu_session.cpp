#include "lockstep/train/backends/gpu/gpu_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/gpu/devices.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "lockstep/train/backends/gpu/gpu_passes.h"

namespace lockstep::train {
namespace {

/// Prepares the GPU for an evaluation, and for training again when destroyed.
class GpuEvaluation {
 public:
  GpuEvaluation(GpuTraining& gpu, const GpuSamples& samples, WeightsKind weights) : gpu_(gpu) {
    gpu_.begin_evaluation(samples, weights);
  }
  ~GpuEvaluation() { gpu_.end_evaluation(); }
  GpuEvaluation(const GpuEvaluation&) = delete;
  GpuEvaluation& operator=(const GpuEvaluation&) = delete;

 private:
  GpuTraining& gpu_;
};

}  // namespace

GpuSession::GpuSession(const BackendContext& context, StateSource source,
                       std::shared_ptr<const gpu::NcclGroup> group)
    : context_(context),
      source_(source),
      spans_(context.watchers().track("device 0")),
      threads_(1, [threads = context.layout().threads_per_device] {
        nn::use_compute_threads(threads);
      }) {
  const auto& setup = context.setup;
  const int gpus = gpu::count_devices();
  if (gpus > 1 && context.communicator().size() == 1) {
    setup.tell(
        fmt::format("this run uses one of {0} GPUs: to use all, start an instance for each GPU, "
                    "with --num-instances {0}",
                    gpus));
  }
  gpu_ = make_gpu_training({.weights = context.state.weights(),
                            .shape = context.state.shape(),
                            .optimizer = setup.optimizer,
                            .task = setup.task,
                            .device = *context.layout().gpu,
                            .compute = compute_type(setup.options),
                            .leaf_type = setup.leaf_type(),
                            .replicas = context.layout().replicas,
                            .divisor = context.rules.divisor,
                            .step_rules = context.rules.step_rules,
                            .seed = setup.options.seed(),
                            .is_deterministic = setup.options.is_deterministic(),
                            .home = context.state.sum().states(),
                            .group = std::move(group),
                            .order = setup.options.reduction_order(),
                            .tell = setup.tell},
                           context.original.model().clone());
}

/// If the host sums the leaves, a launch computes one leaf. Otherwise a launch has several steps,
/// and a pass may compute several replicas, unless this would change bits.
void GpuSession::prepare(const TrainingBackend::Preparation& preparation) {
  const auto& options = context_.setup.options;
  const bool is_resident = source_ == StateSource::Gpu;
  const auto& loader = preparation.loader;
  const int gpu = *context_.layout().gpu;
  const GpuInputShape input{.replicas = context_.layout().local,
                            .micro_batches = options.gradient_accumulation(),
                            .batch_size = loader.shape().batch_size,
                            .steps = is_resident ? steps_per_launch(options) : 1};
  const GpuDemand demand{
      .weights = context_.state.weights(),
      .shape = context_.state.shape(),
      .compute = compute_type(options),
      .input = input,
      .samples = {loader.fields(), loader.tensors().picture_format(), loader.stored()},
      .kept_bytes = preparation.kept_bytes};
  // The GPU has one version of the state already.
  const auto memory = gpu::describe_device(gpu).free_bytes +
                      static_cast<std::int64_t>(context_.state.shape().bytes());
  const bool by_replica = !is_resident || options.is_deterministic();
  const auto chosen =
      choose_passes(input, options.fuse(), by_replica, groups_that_fit(demand, memory));
  warn_of_memory(gpu_memory(demand, chosen.front().groups()).total(), memory);
  const int leaves = count_leaves(chosen);
  std::vector<int> leaves_of_all(static_cast<std::size_t>(context_.communicator().size()));
  context_.communicator().all_gather(
      {&leaves, 1, DataType::I32, "leaves"},
      {leaves_of_all.data(), std::ssize(leaves_of_all), DataType::I32, "leaves"});
  gpu_->prepare({.input = input,
                 .samples = demand.samples,
                 .fuse = options.fuse(),
                 .passes = chosen,
                 .leaves = std::move(leaves_of_all)});
  if (auto* const status = options.watchers().status) {
    const auto free = gpu::describe_device(gpu).free_bytes;
    status->note_device_memory(std::max<std::int64_t>(0, memory - free));
  }
}

void GpuSession::warn_of_memory(std::int64_t needed, std::int64_t available) const {
  if (needed <= available) return;
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  context_.setup.tell(fmt::format(
      "GPU {}: this run needs about {:.1f} GiB, but only {:.1f} GiB are free; if it runs out of "
      "memory, try {}a lower --batch-size",
      *context_.layout().gpu, gib(needed), gib(available),
      context_.setup.options.fuse() == Fuse::Off ? "" : "--fuse off, or "));
}

void GpuSession::evaluate(Evaluator& evaluator) {
  const auto& loader = evaluator.loader();
  const auto weights = evaluator.task().weights;
  threads_.run([&](int) {
    nn::with_torch_errors("evaluate", [&] {
      refresh(weights);
      const GpuEvaluation evaluation(
          *gpu_, {loader.fields(), loader.tensors().picture_format(), {}}, weights);
      while (const auto batch = evaluator.take()) {
        evaluator.put(
            *batch, gpu_->evaluate(BatchTensors::as_loaded(*batch), evaluator.task().class_field));
        context_.communicator().heartbeat("evaluating");
      }
    });
  });
}

at::Tensor GpuSession::predict(const at::Tensor& input, WeightsKind weights) {
  at::Tensor output;
  nn::with_torch_errors("predict", [&] {
    refresh(weights);
    const GpuEvaluation evaluation(*gpu_, {}, weights);
    output = gpu_->predict(input);
  });
  return output;
}

void GpuSession::refresh(WeightsKind weights) const {
  if (source_ == StateSource::Gpu) return;
  if (weights == WeightsKind::Average) return upload();
  gpu_->refresh(context_.state.current());
}

}  // namespace lockstep::train
