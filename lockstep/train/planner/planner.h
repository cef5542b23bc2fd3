#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/place/job_plan.h"
#include "lockstep/nn/model.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/plan/make_plan.h"
#include "lockstep/plan/plan_cache.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/options.h"

namespace lockstep::train {

/// The shape of a job, and the replicas, devices and loaders of its instances.
struct JobCarriers {
  topology::JobShape shape{};
  int threads_per_device = 1;
  int host_cores = 1;
  std::vector<plan::PlanRequest::Instance> instances{};
};

/// The job of this instance. Every instance calls it.
JobCarriers carriers_of(const Options& options, const DataLoader& loader);

/// The loaders of a job that has not started.
struct PlannedLoading {
  std::int64_t batch_bytes = 0;
  data::LoaderMode mode = data::LoaderMode::Async;
  std::optional<int> workers{};
};
/// A job that has not started.
JobCarriers carriers_of(const launch::JobPlan& job, const Options& options,
                        const PlannedLoading& loading);

/// Bytes of a micro-batch in the loader.
std::int64_t batch_bytes(const DataLoader& loader);

/// A training that needs a plan.
struct PlanSubject {
  std::string name;  ///< of the model, for users
  Options options;
  Optimizer optimizer;
  std::size_t num_metrics = 0;
  JobCarriers carriers;
  std::int64_t batch_size = 1;
  /// Returns an input of the model with this number of samples. Only its shape matters.
  std::function<at::Tensor(std::int64_t samples)> input;
  /// Calls a function with a model, on a thread with the compute threads of a device. The function
  /// keeps the weights; it may change buffers and gradients.
  std::function<void(const std::function<void(nn::Model&)>&)> with_model;
  /// Called for each measured block.
  std::function<void(int done, int total)> on_block = [](int, int) {};
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  std::function<void()> heartbeat = [] {};
};

struct FoundPlan {
  plan::Plan plan;
  std::string key;               ///< 16 hexadecimal digits
  std::filesystem::path file{};  ///< in the cache; empty if the plan could not be stored
  bool is_cached = false;
};

/// Returns the plan from the cache, or makes it and stores it there.
///
/// Errors: `Options` for an impossible split; errors of the model when it is measured.
FoundPlan find_plan(const PlanSubject& subject);

/// The same for a job: instance 0 finds the plan, and sends it to the others. Every instance calls
/// it.
FoundPlan agree_on_plan(const PlanSubject& subject);

}  // namespace lockstep::train
