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

/// The whole job, and what each of its instances has.
struct JobCarriers {
  topology::JobShape shape{};
  int threads_per_device = 1;
  int host_cores = 1;
  std::vector<plan::PlanRequest::Instance> instances{};
};

/// Of the job that this instance is one of: all of them meet here.
JobCarriers carriers_of(const Options& options, const DataLoader& loader);
/// Of one that would be started so, with loaders of such batches.
struct PlannedLoading {
  std::int64_t batch_bytes = 0;
  data::LoaderMode mode = data::LoaderMode::Async;
  std::optional<int> workers{};
};
JobCarriers carriers_of(const launch::JobPlan& job, const Options& options,
                        const PlannedLoading& loading);

/// Of a micro-batch, in the loader.
std::int64_t batch_bytes(const DataLoader& loader);

/// What a plan is made for.
struct PlanSubject {
  std::string name;  ///< of the model, for people
  Options options;
  Optimizer optimizer;
  std::size_t num_metrics = 0;
  JobCarriers carriers;
  std::int64_t batch_size = 1;
  /// What the model is called with, for so many samples: shapes are right, values are not.
  std::function<at::Tensor(std::int64_t samples)> input;
  /// Lends a model, on a thread with as many threads as a device has. Its weights stay; its buffers
  /// and gradients need not.
  std::function<void(const std::function<void(nn::Model&)>&)> with_model;
  /// Hears of blocks that are measured.
  std::function<void(int done, int total)> on_block = [](int, int) {};
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  std::function<void()> heartbeat = [] {};
};

struct FoundPlan {
  plan::Plan plan;
  std::string key;               ///< 16 hexadecimal digits
  std::filesystem::path file{};  ///< where it is kept; nothing where it is not
  bool is_cached = false;
};

/// The plan from the cache, or made now and kept there.
///
/// Errors: `Options` for a split that cannot be; what the model throws when it is measured.
FoundPlan find_plan(const PlanSubject& subject);

/// The same for all instances of a job, each of which calls it: the first one finds it for all,
/// while the others wait.
FoundPlan agree_on_plan(const PlanSubject& subject);

}  // namespace lockstep::train
