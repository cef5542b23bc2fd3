#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/train/api/training_model.h"

namespace lockstep::testing {

/// What the launcher tells one instance of a job on one host with two devices of one thread.
inline topology::Identity identity_of(int instance, int instances, int replicas, int stages = 1) {
  topology::Identity identity;
  identity.launched_by = topology::LaunchedBy::Lockstep;
  identity.instance = identity.local_instance = instance;
  identity.num_instances = identity.num_local_instances = instances;
  identity.num_replicas = replicas;
  identity.local_replicas =
      topology::replicas_of(instance, {.replicas = replicas, .instances = instances});
  identity.devices_per_replica = stages;
  identity.device_ids.clear();
  for (int i = 0; i < identity.local_replicas.count * stages; ++i) {
    identity.device_ids.push_back((identity.local_replicas.first * stages + i) % 2);
  }
  identity.threads_per_device = 1;
  return identity;
}

/// Runs `function` as every instance of a job, each on a thread, with options of its own.
inline void run_job(int instances, int replicas, const std::function<void(Options)>& function,
                    int stages = 1) {
  comm::local::run_threads(instances, [&](comm::Communicator& communicator) {
    const auto identity = identity_of(communicator.rank(), instances, replicas, stages);
    function(Options(World(identity, communicator)));
  });
}

/// A job that a launcher restarts: the memory that it keeps outlives each attempt.
class RestartedJob {
 public:
  /// One more attempt, which may end with an error.
  void attempt(int instances, int replicas, const std::function<void(Options)>& function) {
    memory_.begin_attempt();
    const auto kept = std::make_shared<comm::host::KeptMemory>(
        comm::host::KeptMemory::open(memory_.file(), "job"));
    comm::local::run_threads(
        instances,
        [&](comm::Communicator& communicator) {
          auto identity = identity_of(communicator.rank(), instances, replicas);
          identity.job_id = "job";
          identity.restart_count = restarts_;
          function(Options(World(identity, communicator)));
        },
        {}, kept);
    ++restarts_;
  }

  /// One that ends with an error of this kind.
  void failed_attempt(ErrorKind kind, int instances, int replicas,
                      const std::function<void(Options)>& function) {
    try {
      attempt(instances, replicas, function);
      ADD_FAILURE() << "it ended without an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
    }
    ++restarts_;
  }

  /// The host is gone, and its memory with it.
  void lose_memory() { memory_ = comm::host::KeptMemory::create("job"); }

 private:
  comm::host::KeptMemory memory_ = comm::host::KeptMemory::create("job");
  int restarts_ = 0;
};

/// For a process that nobody launched.
inline Options alone(int replicas = 1) {
  Options options{World(topology::Identity{})};
  options.replicas(replicas).threads_per_device(1);
  return options;
}

inline std::vector<float> values_of(const at::Tensor& tensor) {
  const auto dense = tensor.contiguous();
  return {dense.data_ptr<float>(), dense.data_ptr<float>() + dense.numel()};
}

/// A regression: "x" [in] and "y" [out], as tensors and as a data set.
struct Regression {
  at::Tensor x;
  at::Tensor y;

  data::DatasetPtr set() const {
    return std::make_shared<data::ArrayDataset>(
        std::vector<data::Field>{{"x", DataType::F32, {x.size(1)}},
                                 {"y", DataType::F32, {y.size(1)}}},
        std::vector<data::Array>{data::array_of(values_of(x)), data::array_of(values_of(y))});
  }
};

/// There is a line to find, and noise that no line explains.
inline Regression regression(std::int64_t samples, std::int64_t in, std::int64_t out) {
  return nn::make_seeded(42, [&] {
    const auto x = torch::randn({samples, in});
    return Regression{x, x.matmul(torch::randn({in, out})) + 0.3 * torch::randn({samples, out})};
  });
}

inline Task regression_task() {
  return {.loss = mean_squared_error("y"), .metrics = {}};
}

/// Two layers with a curve between them.
struct SmallNetImpl : torch::nn::Cloneable<SmallNetImpl> {
  SmallNetImpl(std::int64_t in, std::int64_t hidden, std::int64_t out)
      : in_(in), hidden_(hidden), out_(out) {
    reset();
  }
  void reset() override {
    first = register_module("first", torch::nn::Linear(in_, hidden_));
    second = register_module("second", torch::nn::Linear(hidden_, out_));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }

  std::int64_t in_, hidden_, out_;
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};

inline std::shared_ptr<SmallNetImpl> small_net(std::int64_t in = 6, std::int64_t hidden = 8,
                                               std::int64_t out = 3) {
  return nn::make_seeded(7, [&] { return std::make_shared<SmallNetImpl>(in, hidden, out); });
}

/// y = xW, beginning with this W: [in, out]. A prediction for the unit matrix is W itself.
inline std::shared_ptr<torch::nn::LinearImpl> matrix(const at::Tensor& weights) {
  const torch::NoGradGuard no_grad;
  auto module = std::make_shared<torch::nn::LinearImpl>(
      torch::nn::LinearOptions(weights.size(0), weights.size(1)).bias(false));
  module->weight.copy_(weights.t());
  return module;
}
inline at::Tensor matrix_of(TrainingModel& model, std::int64_t in,
                            WeightsKind kind = WeightsKind::Trained) {
  return model.predict(torch::eye(in), kind).clone();
}

}  // namespace lockstep::testing
