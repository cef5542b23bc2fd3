#include "lockstep/plan/make_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lockstep/plan/forecast.h"
#include "lockstep/topology/machine.h"

namespace lockstep::plan {
namespace {

/// What a stage has in memory for micro-batches, at the most.
///
/// Between tasks it holds what each micro-batch under way keeps. During one it also has what grows
/// with it: going forward, the blocks so far and what the current one needs besides; going
/// backward, the blocks that are not yet done and what the current one needs besides.
class StageMemory {
 public:
  StageMemory(const Plan& plan, const StagePlan& stage, bool is_last)
      : blocks_(plan.profile.blocks.begin() + stage.first_block,
                plan.profile.blocks.begin() + stage.first_block + stage.num_blocks),
        recompute_(plan.recompute),
        most_in_flight_(stage.most_in_flight),
        is_last_(is_last),
        first_block_(stage.first_block) {
    for (int i = 0; i < stage.num_blocks; ++i) {
      may_be_cut_.push_back(i == 0 || may_begin_stage(plan.profile, first_block_ + i));
    }
  }

  /// Of one micro-batch, from forward to backward.
  std::int64_t kept() const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) bytes += kept_of(i);
    return bytes;
  }

  std::int64_t most() const { return (most_in_flight_ - 1) * kept() + one(); }

 private:
  bool begins_part(std::size_t block) const {
    return block == 0 || (recompute_ == Recompute::Blocks && may_be_cut_[block]);
  }

  std::int64_t kept_of(std::size_t block) const {
    if (recompute_ == Recompute::None) return blocks_[block].kept_bytes;
    const bool is_end = block + 1 == blocks_.size();
    const bool is_handed_on = is_end ? !is_last_ : begins_part(block + 1);
    return blocks_[block].buffer_bytes + (is_handed_on ? blocks_[block].output_bytes : 0);
  }

  /// While one micro-batch is computed. What is computed again is there from the beginning of its
  /// part on.
  std::int64_t one() const {
    std::int64_t most = 0;
    std::int64_t before = 0;    // the part
    std::int64_t recorded = 0;  // of the part, so far
    std::int64_t kept_of_part = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (begins_part(i)) {
        before += std::exchange(kept_of_part, 0);
        recorded = 0;
      }
      recorded += blocks_[i].kept_bytes;
      kept_of_part += kept_of(i);
      const auto besides = std::max(blocks_[i].forward_bytes, blocks_[i].backward_bytes);
      most = std::max(most, before + recorded + besides);
    }
    return most;
  }

  std::vector<BlockProfile> blocks_;
  std::vector<bool> may_be_cut_;
  Recompute recompute_;
  std::int64_t most_in_flight_;
  bool is_last_;
  int first_block_;
};

StagePlan stage_of(const Plan& plan, const StageSplit& split, std::size_t index) {
  const auto& blocks = plan.profile.blocks;
  const int end = index + 1 < split.size() ? split[index + 1] : static_cast<int>(blocks.size());
  StagePlan stage{.first_block = split[index],
                  .num_blocks = end - split[index],
                  .begins_with = blocks[static_cast<std::size_t>(split[index])].name,
                  .ends_with = blocks[static_cast<std::size_t>(end) - 1].name,
                  .output_bytes = blocks[static_cast<std::size_t>(end) - 1].output_bytes};
  for (int i = split[index]; i < end; ++i) {
    const auto& block = blocks[static_cast<std::size_t>(i)];
    stage.forward_s += block.forward_s;
    stage.backward_s += block.backward_s;
    stage.parameter_bytes += block.parameter_bytes;
  }
  stage.most_in_flight = most_in_flight({.schedule = plan.schedule,
                                         .stages = static_cast<int>(split.size()),
                                         .micro_batches = plan.micro_batches},
                                        static_cast<int>(index));
  stage.kept_bytes = StageMemory(plan, stage, index + 1 == split.size()).kept();
  return stage;
}

/// In an instance's own numbering of its devices, as it computes.
FlowShape flow_of(const Plan& plan, const PlanRequest::Instance& instance) {
  FlowShape flow{.schedule = plan.schedule, .micro_batches = plan.micro_batches};
  std::vector<int> seen;
  auto next = instance.device_ids.begin();
  std::set<int> first;
  for (int replica = 0; replica < instance.replicas.count; ++replica) {
    auto& devices = flow.device_of.emplace_back();
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage, ++next) {
      auto found = std::find(seen.begin(), seen.end(), *next);
      if (found == seen.end()) found = seen.insert(seen.end(), *next);
      devices.push_back(static_cast<int>(found - seen.begin()));
    }
    first.insert(devices.front());
  }
  flow.side_by_side = static_cast<int>(first.size());
  flow.most_batches = instance.loader_buffers;
  return flow;
}

Forecast forecast_of(const Plan& plan, const PlanRequest::Instance& instance,
                     PipelineSchedule schedule) {
  std::vector<StageTimes> times;
  for (const auto& stage : plan.stages) {
    auto& time = times.emplace_back();
    if (plan.profile.is_timed) time = {stage.forward_s, stage.backward_s};
    // The last stage computes again only what does not go backward at once.
    const bool recomputes = plan.recompute == Recompute::Blocks ||
                            (plan.recompute == Recompute::Stage && &stage != &plan.stages.back());
    if (recomputes) time.backward_s += time.forward_s;
  }
  auto flow = flow_of(plan, instance);
  flow.schedule = schedule;
  return forecast(flow, times);
}

/// The first instance carries the most.
void add_forecast(Plan& plan, const PlanRequest& request) {
  const auto& instance = request.instances.front();
  const auto expected = forecast_of(plan, instance, plan.schedule);
  plan.idle_share = expected.idle_share;
  if (!plan.profile.is_timed) return;
  plan.step_s = expected.seconds;
  plan.sequential_s = forecast_of(plan, instance, PipelineSchedule::Sequential).seconds;
}

DeviceMemory memory_of(const Plan& plan, const DevicePlan& device) {
  DeviceMemory memory;
  std::set<int> stages;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto stage = static_cast<int>(i);
    const auto replicas =
        static_cast<int>(std::ranges::count(device.stages, stage, &PlacedStage::stage));
    if (replicas == 0) continue;
    memory.activations += StageMemory(plan, plan.stages[i], i + 1 == plan.stages.size()).most();
    // A stage hands in those of one replica before it goes backward with the next.
    memory.gradients += plan.stages[i].parameter_bytes;
    for (int block = 0; block < plan.stages[i].num_blocks; ++block) {
      const auto number = static_cast<std::size_t>(plan.stages[i].first_block + block);
      memory.buffers += replicas * plan.profile.blocks[number].buffer_bytes;
    }
  }
  return memory;
}

std::vector<int> cores_of(const PlanRequest& request, const PlanRequest::Instance& instance,
                          int device) {
  if (instance.cores.empty()) return {};
  const int stages = request.shape.replicas * request.shape.devices_per_replica;
  const int devices =
      topology::devices_on_host(request.host_cores, request.threads_per_device, stages);
  return topology::cores_of_device(device, devices, request.host_cores);
}

InstancePlan instance_of(const Plan& plan, const PlanRequest& request, std::size_t index) {
  const auto& asked = request.instances[index];
  InstancePlan instance{.instance = static_cast<int>(index),
                        .replicas = asked.replicas,
                        .slice = asked.slice,
                        .loader_workers = asked.loader_workers,
                        .loader_bytes = asked.loader_buffers * asked.batch_bytes};
  const auto num_stages = static_cast<int>(plan.stages.size());
  for (std::size_t i = 0; i < asked.device_ids.size(); ++i) {
    const int id = asked.device_ids[i];
    auto found = std::ranges::find(instance.devices, id, &DevicePlan::device);
    if (found == instance.devices.end()) {
      found = instance.devices.insert(found, {.device = id, .cores = cores_of(request, asked, id)});
    }
    const int number = static_cast<int>(i);
    found->stages.push_back({asked.replicas.first + number / num_stages, number % num_stages});
  }
  for (auto& device : instance.devices) device.memory = memory_of(plan, device);
  return instance;
}

}  // namespace

Plan make_plan(const PlanRequest& request, const ModelProfile& profile, const StageSplit& split) {
  Plan plan{.model = request.model,
            .shape = request.shape,
            .threads_per_device = request.threads_per_device,
            .batch_size = request.batch_size,
            .micro_batches = request.micro_batches,
            .schedule = request.schedule,
            .recompute = request.recompute,
            .profile = profile,
            .buckets = {{0, request.num_elements}},
            .shared = request.shared};
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    plan.stages.push_back(stage_of(plan, split, stage));
  }
  add_forecast(plan, request);
  for (std::size_t i = 0; i < request.instances.size(); ++i) {
    plan.instances.push_back(instance_of(plan, request, i));
  }
  return plan;
}

}  // namespace lockstep::plan
