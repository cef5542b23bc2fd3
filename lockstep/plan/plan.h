#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/plan/model_profile.h"
#include "lockstep/plan/pipeline_schedule.h"
#include "lockstep/topology/job_shape.h"

namespace lockstep::plan {

/// A contiguous part of the model's blocks. Numbers are those of one micro-batch of one replica.
struct StagePlan {
  int first_block = 0;
  int num_blocks = 0;
  std::string begins_with{};
  std::string ends_with{};
  double forward_s = 0;  ///< 0 where nothing was timed
  double backward_s = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t output_bytes = 0;    ///< handed on to the next stage
  std::int64_t kept_bytes = 0;      ///< kept from forward to backward
  std::int64_t most_in_flight = 1;  ///< micro-batches that may be kept at the same time

  bool operator==(const StagePlan&) const = default;
};

/// A stage of a replica, on a device.
struct PlacedStage {
  int replica = 0;
  int stage = 0;

  bool operator==(const PlacedStage&) const = default;
};

/// Bytes of tensors, at the most at the same time.
struct LOCKSTEP_API DeviceMemory {
  std::int64_t activations = 0;
  std::int64_t gradients = 0;  ///< until they are handed in
  std::int64_t buffers = 0;    ///< each replica's own, as running statistics

  std::int64_t total() const noexcept;
  bool operator==(const DeviceMemory&) const = default;
};

struct DevicePlan {
  int device = 0;            ///< of the host
  std::vector<int> cores{};  ///< of the host, that it computes on; empty: any
  std::vector<PlacedStage> stages{};
  DeviceMemory memory{};

  bool operator==(const DevicePlan&) const = default;
};

/// Some of the model's numbers in flat memory.
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool operator==(const ElementRange&) const = default;
};

struct LOCKSTEP_API InstancePlan {
  int instance = 0;
  topology::ReplicaRange replicas{};
  ElementRange slice{};  ///< that it reduces and updates
  int loader_workers = 0;
  std::int64_t loader_bytes = 0;  ///< of batches that are filled or in use
  std::vector<DevicePlan> devices{};

  /// Tensor bytes of its own, and batches.
  std::int64_t private_bytes() const noexcept;
  bool operator==(const InstancePlan&) const = default;
};

/// Bytes that the instances of a host share.
struct SharedBytes {
  std::int64_t weights = 0;    ///< with buffers, in one version
  std::int64_t optimizer = 0;  ///< what it keeps, in one version
  std::int64_t gradients = 0;  ///< leaves of the tree that are being folded
  std::int64_t total = 0;      ///< weights and optimizer in two versions, gradients, frozen weights

  bool operator==(const SharedBytes&) const = default;
};

/// Everything that a run needs to know before it begins, for the whole job: nothing is left to
/// default at run time. A value, made by `make_plan`, kept by `PlanCache`, shown by `lockstep
/// plan`.
///
/// Nothing that is decided here has any influence on bits; T, which has, is told.
struct LOCKSTEP_API Plan {
  std::string model{};
  topology::JobShape shape{};
  int threads_per_device = 1;  ///< T
  std::int64_t batch_size = 1;
  std::int64_t micro_batches = 1;  ///< G
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  Recompute recompute = Recompute::None;
  ModelProfile profile{};
  std::vector<StagePlan> stages{};
  double idle_share = 0;    ///< of the devices' time; stages that were not timed count as equal
  double step_s = 0;        ///< of computing, as the times of the stages allow; 0: not timed
  double sequential_s = 0;  ///< the same, one stage at a time
  /// Parts of the gradient that are combined each as one, in the order in which they are.
  std::vector<ElementRange> buckets{};
  std::vector<InstancePlan> instances{};
  SharedBytes shared{};
  std::int64_t available_bytes = 0;  ///< of memory, on the host that made the plan

  /// On one host: what is shared, and what the instances have of their own.
  std::int64_t total_bytes() const noexcept;
  bool operator==(const Plan&) const = default;
};

/// The first blocks of its stages, ascending from 0.
LOCKSTEP_API std::vector<int> split_of(const Plan& plan);

/// What a user should know before it runs, in whole sentences: that it would not fit memory, that
/// too few micro-batches keep stages idle.
LOCKSTEP_API std::vector<std::string> warnings_of(const Plan& plan);

}  // namespace lockstep::plan
