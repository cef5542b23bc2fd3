#include "lockstep/train/plan_training.h"

#include <fmt/format.h>

#include "lockstep/nn/compute_threads.h"
#include "lockstep/train/planner.h"
#include "lockstep/train/replica_result.h"
#include "lockstep/train/train_setup.h"

namespace lockstep::train {
namespace {

constexpr int kPreparations = 3;

/// The whole job as one process. Nothing is loaded: a loader that fills batches would disturb what
/// is measured.
TrainRequest as_one(TrainRequest request, const topology::JobShape& shape) {
  request.replicas = shape.replicas;
  request.devices_per_replica = shape.devices_per_replica;
  request.loader_mode = data::LoaderMode::Sync;
  request.workers = 0;
  return request;
}

}  // namespace

PlannedTraining plan_training(const TrainRequest& request, const launch::JobPlan& job,
                              events::TrainSink& sink) {
  sink.on(events::Preparing{"reading the data set", 0, kPreparations});
  const auto alone = as_one(request, job.placement.shape);
  const auto options = options_of(alone);
  const auto set = data::open_set(request.dataset, data::Split::Train, request.set);
  const auto loader = train_loader(alone, options, set);
  sink.on(events::Preparing{"making the network", 1, kPreparations});
  const auto model = open_model(request, *set);
  const auto task = task_of(request);
  nn::use_compute_threads(job.threads_per_device);
  sink.on(events::Preparing{"deciding the plan", 2, kPreparations});
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
            sink.on(events::Preparing{fmt::format("measuring block {} of {}", done, total), 2,
                                      kPreparations});
          },
      .tell = [&](const std::string& text) { sink.on(events::Notice{text}); },
  });
  sink.on(events::Preparing{found.is_cached ? "plan cached" : "plan made", kPreparations,
                            kPreparations});
  return {std::move(found.plan), std::move(found.key), found.file.string(), found.is_cached};
}

}  // namespace lockstep::train
