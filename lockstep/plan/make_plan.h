#pragma once

#include "lockstep/base/export.h"
#include "lockstep/plan/plan.h"
#include "lockstep/plan/stage_split.h"

namespace lockstep::plan {

/// What a plan is made for, beside the blocks of the model.
struct PlanRequest {
  std::string model{};
  topology::JobShape shape{};
  int threads_per_device = 1;
  std::int64_t batch_size = 1;
  std::int64_t micro_batches = 1;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  Recompute recompute = Recompute::None;
  int host_cores = 1;

  struct Instance {
    topology::ReplicaRange replicas{};
    std::vector<int> device_ids{};  ///< stage by stage
    std::vector<int> cores{};       ///< of the host, that it is bound to; empty: any
    ElementRange slice{};
    int loader_workers = 0;
    int loader_buffers = 1;
    std::int64_t batch_bytes = 0;  ///< of one micro-batch in the loader
  };
  std::vector<Instance> instances{};
  std::int64_t num_elements = 0;  ///< of the gradient
  SharedBytes shared{};
};

/// Decides the rest: a pure function.
LOCKSTEP_PRIVATE_API Plan make_plan(const PlanRequest& request, const ModelProfile& profile,
                                    const StageSplit& split);

}  // namespace lockstep::plan
