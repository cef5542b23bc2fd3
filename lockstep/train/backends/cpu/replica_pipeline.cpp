#include "lockstep/train/backends/cpu/replica_pipeline.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

at::Tensor checked_loss(const at::Tensor& loss) {
  if (loss.numel() != 1 || !loss.is_floating_point()) {
    throw Error(ErrorKind::Options,
                fmt::format("loss: expected one floating-point number, found {} {}",
                            c10::toString(loss.scalar_type()), c10::str(loss.sizes())),
                "return the mean over the micro-batch");
  }
  // What will be computed again has no graph yet.
  if (!loss.requires_grad() && at::GradMode::is_enabled()) {
    throw Error(ErrorKind::Options,
                "loss: it does not depend on any parameter in a way that can be derived",
                "look for torch::NoGradGuard, detach() or parameters without requires_grad");
  }
  return loss;
}

BlockRange blocks_of(const PipelineSettings& settings, std::size_t stage) {
  const auto end = stage + 1 < settings.split.size()
                       ? static_cast<std::size_t>(settings.split[stage + 1])
                       : settings.may_be_cut.size();
  return {static_cast<std::size_t>(settings.split[stage]), end};
}

/// One part, or as many as blocks allow.
std::vector<BlockRange> parts_of(const PipelineSettings& settings, std::size_t stage) {
  const auto [first, end] = blocks_of(settings, stage);
  if (settings.recompute != Recompute::Blocks) return {{first, end}};
  std::vector<BlockRange> parts{{first, first + 1}};
  for (auto block = first + 1; block < end; ++block) {
    if (settings.may_be_cut[block]) parts.push_back({block, block});
    parts.back().end = block + 1;
  }
  return parts;
}

Stage make_stage(nn::Model& model, const PipelineSettings& settings, std::size_t stage) {
  const bool backward_follows = most_in_flight(settings.shape, static_cast<int>(stage)) == 1;
  return Stage(model, {.parts = parts_of(settings, stage),
                       .recomputes = settings.recompute != Recompute::None,
                       .keeps_last = backward_follows && stage + 1 == settings.split.size()});
}

}  // namespace

ReplicaPipeline::ReplicaPipeline(nn::Model& model, const Task& task,
                                 const PipelineSettings& settings)
    : task_(&task), micro_batches_(static_cast<std::size_t>(settings.shape.micro_batches)) {
  for (std::size_t stage = 0; stage < settings.split.size(); ++stage) {
    stages_.push_back(make_stage(model, settings, stage));
  }
}

void ReplicaPipeline::begin(const Step& step) {
  step_ = step;
  result_ = {};
}

nn::DrawKey ReplicaPipeline::key_of(std::int64_t micro_batch) const {
  return {.seed = step_.seed,
          .step = step_.step,
          .replica = step_.replica,
          .micro_batch = static_cast<std::uint32_t>(micro_batch)};
}

void ReplicaPipeline::enter(std::int64_t number, data::Batch batch, Fields fields) {
  auto& entering = micro_batch(number);
  entering.batch.emplace(std::move(batch));
  entering.fields = std::move(fields);
  const nn::RandomScope scope(key_of(number));  // it may be made noisy, or mixed
  entering.handed = model_input(entering.fields, *task_);
  entering.is_counted = false;
}

/// A loss that is computed again is not counted again.
at::Tensor ReplicaPipeline::loss_of(MicroBatch& micro_batch, const at::Tensor& output) {
  auto loss = checked_loss(task_->loss(output, micro_batch.fields));
  if (micro_batch.is_counted) return loss;
  micro_batch.is_counted = true;
  const torch::NoGradGuard no_grad;
  result_.loss += loss.item<double>();
  add_metrics(output.detach(), micro_batch.fields, *task_, result_);
  return loss;
}

void ReplicaPipeline::forward(int stage, std::int64_t number) {
  auto& passing = micro_batch(number);
  auto input = std::exchange(passing.handed, {});
  auto& computing = stages_[static_cast<std::size_t>(stage)];
  if (is_last(stage)) {
    const auto loss = computing.forward(
        std::move(input), key_of(number),
        [this, &passing](const auto& output) { return loss_of(passing, output); });
    passing.handed = at::full_like(loss, step_.loss_scale).detach();
    return;
  }
  passing.handed = computing.forward(std::move(input), key_of(number));
}

void ReplicaPipeline::backward(int stage, std::int64_t number) {
  auto& passing = micro_batch(number);
  auto gradient = std::exchange(passing.handed, {});
  passing.handed = stages_[static_cast<std::size_t>(stage)].backward(std::move(gradient));
  if (stage > 0) return;
  passing.handed.reset();
  passing.fields = {};
  passing.batch.reset();
}

}  // namespace lockstep::train
