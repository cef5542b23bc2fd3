#include "lockstep/train/backends/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <mutex>

#include "lockstep/nn/block_sharing.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/backends/batch_tensors.h"

namespace lockstep::train {
namespace {

/// Sets a model to evaluation mode, and back to training mode when destroyed.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Model& model) : model_(model) { model_.set_mode(nn::Mode::Evaluate); }
  ~EvaluationMode() { model_.set_mode(nn::Mode::Train); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Model& model_;
};

}  // namespace

/// All replicas are clones. The model of the program may have ties and gradients that a clone does
/// not have, and no replica may differ from another.
CpuBackend::CpuBackend(const BackendContext& context)
    : HostBackend(context),
      threads_(context.layout().num_devices, [threads = context.layout().threads_per_device] {
        nn::use_compute_threads(threads);
      }) {
  for (int device = 0; device < threads_.count(); ++device) {
    times_.push_back({.spans = context.watchers().track(fmt::format("device {}", device))});
  }
  const auto& local = context.layout().local;
  replicas_.reserve(static_cast<std::size_t>(local.count));
  for (int i = 0; i < local.count; ++i) {
    replicas_.emplace_back(local.first + i, context.original.model().clone(),
                           context.state.weights(), context.state.shape());
    replicas_.back().prepare_to_learn();
  }
}

void CpuBackend::attach(Replica& replica, WeightsKind weights) const {
  const auto* const state = context_.state.current();
  replica.attach(weights_in(context_.state.shape(), state, weights), state);
}

void CpuBackend::load_state() {
  for (auto& replica : replicas_) {
    attach(replica, WeightsKind::Trained);
    if (context_.state.weights().frozen.empty()) continue;
    replica.attach_frozen(context_.state.frozen());
  }
}

void CpuBackend::lend_model(const std::function<void(nn::Model&)>& use) {
  threads_.run([&](int device) {
    if (device == 0) use(replicas_.front().model());
  });
}

/// Blocks that share a parameter must stay in one stage. Bits depend on this, so these blocks are
/// read from the model itself.
void CpuBackend::prepare(const Preparation& preparation) {
  const auto& options = context_.setup.options;
  const auto& layout = context_.layout();
  PipelineSettings settings{.shape = {.schedule = options.pipeline(),
                                      .stages = layout.stages,
                                      .micro_batches = options.gradient_accumulation()},
                            .recompute = options.recompute(),
                            .split = preparation.split};
  const auto blocks = nn::list_blocks(context_.original.model());
  for (int block = 0; block < std::ssize(blocks.blocks); ++block) {
    settings.may_be_cut.push_back(plan::may_begin_stage(blocks, block));
  }
  pipelines_.reserve(replicas_.size());
  for (auto& replica : replicas_) {
    replica.cut(preparation.split);
    pipelines_.emplace_back(replica.model(), context_.setup.task, settings);
  }
  flow_.emplace(plan::FlowShape{.schedule = settings.shape.schedule,
                                .micro_batches = settings.shape.micro_batches,
                                .device_of = layout.device_of,
                                .side_by_side = layout.num_first_devices(),
                                .most_batches = preparation.loader.buffers()});
  const bool overlaps = options.overlap() == Overlap::On && layout.stages == 1;
  if (overlaps && !context_.state.sum().early_buckets().empty()) {
    sender_ = std::make_unique<BucketedGradientSender>(
        replicas_.back(), context_.state.sum(), context_.state.weights(), context_.state.totals());
  }
}

void CpuBackend::compute_leaves(std::int64_t) {
  const events::TimedWait wait(update_spans(), number());
  flow_->restart();
  stages_written_ = 0;
  threads_.run([&](int device) { run_device(device); },
               [&] {
                 flow_->give_up();
                 source_->give_up();
               });
}

void CpuBackend::run_device(int device) {
  auto& times = times_[static_cast<std::size_t>(device)];
  while (const auto task = next_task(device, times.spans)) {
    const auto replica = replicas_[static_cast<std::size_t>(task->replica)].number();
    nn::with_torch_errors(fmt::format("train: replica {}, step {}", replica, number()),
                          [&] { run_task(*task, times); });
    flow_->done(*task);
    context_.communicator().heartbeat("computing");
  }
}

std::optional<plan::FlowTask> CpuBackend::next_task(int device, events::SpanSink* spans) {
  const events::TimedWait wait(spans, number());
  return flow_->next(device);
}

void CpuBackend::run_task(const plan::FlowTask& task, DeviceTimes& times) {
  Stopwatch watch;
  auto& stage = times.stages[static_cast<std::size_t>(task.stage)];
  const auto add_time = [&](Latency& latency, double waited = 0) {
    const auto seconds = watch.lap() - waited;
    latency.add(seconds);
    times.compute += seconds;
    times.data += waited;
  };
  switch (task.kind) {
    case plan::FlowTask::Kind::Forward: {
      const auto waited = task.stage == 0 ? enter(task, times.spans) : 0;
      const events::TimedScope span(times.spans, events::SpanKind::Forward, number());
      pipelines_[static_cast<std::size_t>(task.replica)].forward(task.stage, task.micro_batch);
      return add_time(stage.forward, waited);
    }
    case plan::FlowTask::Kind::Backward: {
      const events::TimedScope span(times.spans, events::SpanKind::Backward, number());
      run_backward(task);
      return add_time(stage.backward);
    }
    case plan::FlowTask::Kind::HandIn: {
      const events::TimedScope span(times.spans, events::SpanKind::Reduce, number());
      write_leaf(task);
      times.reduce += watch.lap();
      return;
    }
  }
}

/// Gives a replica its next batch. With its first micro-batch, a replica also takes the current
/// weights. Returns the seconds for which it waited for data.
double CpuBackend::enter(const plan::FlowTask& task, events::SpanSink* spans) {
  auto& replica = replicas_[static_cast<std::size_t>(task.replica)];
  auto& pipeline = pipelines_[static_cast<std::size_t>(task.replica)];
  if (task.micro_batch == 0) {
    attach(replica, WeightsKind::Trained);
    pipeline.begin({.seed = context_.setup.options.seed(),
                    .step = static_cast<std::uint64_t>(before().steps),
                    .replica = static_cast<std::uint32_t>(replica.number()),
                    .loss_scale = before().loss_scale});
  }
  Stopwatch watch;
  auto batch = [&] {
    const events::TimedWait wait(spans, number());
    return next_batch(replica.number(), spans);
  }();
  const auto waited = watch.lap();
  auto fields = loader_->tensors()(batch);
  pipeline.enter(task.micro_batch, std::move(batch), std::move(fields));
  return waited;
}

/// The last backward pass of the last replica may send gradients before the pass is complete.
void CpuBackend::run_backward(const plan::FlowTask& task) {
  const bool is_last = task.replica + 1 == std::ssize(replicas_) &&
                       task.micro_batch + 1 == context_.setup.options.gradient_accumulation();
  std::optional<BucketedGradientSender::Pass> pass;
  if (sender_ && is_last) pass.emplace(*sender_, leaf_format());
  pipelines_[static_cast<std::size_t>(task.replica)].backward(task.stage, task.micro_batch);
}

Replica::LeafFormat CpuBackend::leaf_format() const {
  return {.type = context_.setup.leaf_type(),
          .loss_scale = static_cast<float>(before().loss_scale),
          .micro_batches = context_.setup.options.gradient_accumulation()};
}

/// Writes the part of one stage. The leaf is complete when the last stage has written its part.
void CpuBackend::write_leaf(const plan::FlowTask& task) {
  auto& replica = replicas_[static_cast<std::size_t>(task.replica)];
  const auto& totals = context_.state.totals();
  const auto to = leaf();
  const auto format = leaf_format();
  replica.write_leaf(task.stage, to, totals, format, context_.state.current());
  // The first stage is the last one to run backward.
  if (task.stage == 0) {
    const auto& result = pipelines_[static_cast<std::size_t>(task.replica)].result();
    replica.write_results(to, totals, result, format);
    write_requests(to.last(totals.count()));
  }
  if (++stages_written_ < context_.layout().stages) return;
  stages_written_ = 0;
  const auto lock = sender_ ? std::unique_lock(sender_->mutex()) : std::unique_lock<std::mutex>();
  context_.state.sum().take_leaf();
}

void CpuBackend::check_integers(std::span<const float> hash_sums) const {
  for (const auto& replica : replicas_) {
    check_integers_agree(context_.state.weights(), hash_sums, replica.integer_hash(),
                         context_.layout().replicas);
  }
}

void CpuBackend::evaluate(Evaluator& evaluator) {
  threads_.run([&](int device) {
    nn::with_torch_errors("evaluate", [&] { evaluate_on(device, evaluator); });
  });
}

/// Every device computes one whole replica instead of a stage, because stages would wait for each
/// other.
void CpuBackend::evaluate_on(int device, Evaluator& evaluator) {
  if (device >= std::ssize(replicas_)) return;
  const torch::NoGradGuard no_grad;
  auto& replica = replicas_[static_cast<std::size_t>(device)];
  attach(replica, evaluator.task().weights);
  const EvaluationMode mode(replica.model());
  while (const auto batch = evaluator.take()) {
    const nn::RandomScope scope({.seed = context_.setup.options.seed(),
                                 .step = static_cast<std::uint64_t>(batch->place().batch)});
    evaluator.put(*batch, replica.evaluate(evaluator.loader().tensors()(*batch),
                                           context_.setup.task, evaluator.task().class_field));
    context_.communicator().heartbeat("evaluating");
  }
}

at::Tensor CpuBackend::predict(const at::Tensor& input, WeightsKind weights) {
  at::Tensor output;
  lend_model([&](nn::Model& model) {
    nn::with_torch_errors("predict", [&] {
      const torch::NoGradGuard no_grad;
      const nn::RandomScope scope({.seed = context_.setup.options.seed()});
      attach(replicas_.front(), weights);
      const EvaluationMode mode(model);
      output = model.forward(input);
    });
  });
  return output;
}

}  // namespace lockstep::train
