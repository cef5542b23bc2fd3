#include "lockstep/train/jobs/plan_training.h"

#include <fmt/format.h>

#include "lockstep/gpu/devices.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "lockstep/train/backends/gpu/gpu_passes.h"
#include "lockstep/train/backends/replica.h"
#include "lockstep/train/jobs/train_setup.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/train/planner/planner.h"

namespace lockstep::train {
namespace {

constexpr int kPreparations = 3;

/// The whole job as one process. Nothing is loaded, because a loader that fills batches would
/// disturb the measurement.
TrainRequest as_one(TrainRequest request, const topology::JobShape& shape) {
  request.replicas = shape.replicas;
  request.devices_per_replica = shape.devices_per_replica;
  request.loader_mode = data::LoaderMode::Sync;
  request.workers = 0;
  return request;
}

/// The memory of the instance with the most replicas, if no other process uses its GPU.
GpuMemory planned_gpu_memory(const Options& options, const Optimizer& optimizer,
                             const nn::Model& model, const DataLoader& loader,
                             const plan::Plan& plan) {
  GpuInputShape input{.micro_batches = options.gradient_accumulation(),
                      .batch_size = loader.shape().batch_size,
                      .steps = steps_per_launch(options)};
  for (const auto& instance : plan.instances) {
    if (instance.replicas.count > input.replicas.count) input.replicas = instance.replicas;
  }
  const auto weights = lay_out_weights(nn::slots_of(model.tensors()), optimizer);
  const StateShape shape(weights, optimizer.num_states(), optimizer.average_decay().has_value());
  GpuDemand demand{
      .weights = weights,
      .shape = shape,
      .compute = compute_type(options),
      .input = input,
      .samples = {loader.fields(), loader.tensors().picture_format(), loader.stored()}};
  for (const auto& stage : plan.stages) demand.kept_bytes += stage.kept_bytes;
  const auto memory = gpu::describe_device(*loader.layout().gpu).memory_bytes;
  const bool by_replica = options.is_deterministic() || plan.instances.size() > 1;
  const auto passes =
      choose_passes(input, options.fuse(), by_replica, groups_that_fit(demand, memory));
  return gpu_memory(demand, passes.front().groups());
}

}  // namespace

PlannedTraining plan_training(const TrainRequest& request, const launch::JobPlan& job,
                              Callback& callback) {
  callback.on_preparing({"reading the dataset", 0, kPreparations});
  const auto alone = as_one(request, job.placement.shape);
  const auto options = options_of(alone);
  const auto set = data::open_set(request.dataset, data::Split::Train, request.set);
  const auto loader = train_loader(alone, options, set);
  callback.on_preparing({"creating the network", 1, kPreparations});
  const auto model = open_model(request, *set);
  const auto task = task_of(request);
  nn::use_compute_threads(job.threads_per_device);
  callback.on_preparing({"deciding the plan", 2, kPreparations});
  auto found = find_plan({
      .name = request.model.model,
      .options = options,
      .optimizer = request.optimizer,
      .num_metrics = task.metrics.size(),
      .carriers = carriers_of(job, options,
                              {.batch_bytes = batch_bytes(loader),
                               .mode = request.loader_mode,
                               .workers = request.workers}),
      .batch_size = request.batch_size,
      .input =
          [&](std::int64_t samples) {
            return model_input(loader.tensors().example(loader.fields(), samples), task);
          },
      .with_model = [&](const auto& measure) { measure(*model); },
      .on_block =
          [&](int done, int total) {
            callback.on_preparing(
                {fmt::format("measuring block {} of {}", done, total), 2, kPreparations});
          },
      .tell = [&](const std::string& text) { callback.on_notice(text); },
  });
  callback.on_preparing(
      {found.is_cached ? "plan cached" : "plan made", kPreparations, kPreparations});
  PlannedTraining planned{std::move(found.plan), std::move(found.key), found.file.string(),
                          found.is_cached};
  if (loader.layout().gpu) {
    planned.gpu = planned_gpu_memory(options, request.optimizer, *model, loader, planned.plan);
  }
  return planned;
}

}  // namespace lockstep::train
