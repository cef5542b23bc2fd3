#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/train/jobs.h"

// Trainings that are cut off and go on, and what they come to.

namespace lockstep::testing {

inline constexpr int kReplicas = 3;
inline constexpr int kEpochs = 3;
inline constexpr std::int64_t kSamples = 48;
inline constexpr std::int64_t kBatch = 2;
inline constexpr std::int64_t kStepsPerIteration = 2;
inline constexpr std::int64_t kStepsPerEpoch = kSamples / kBatch / kReplicas;  // 8
inline constexpr std::int64_t kSteps = kEpochs * kStepsPerEpoch;

inline Error crash() {
  return {ErrorKind::Bug, "crashed"};
}

/// Everything that a step can change: two kinds of buffers, something random, something frozen.
struct BusyNetImpl : torch::nn::Cloneable<BusyNetImpl> {
  BusyNetImpl() { reset(); }
  void reset() override {
    if (cannot_be_cloned) throw crash();
    first = register_module("first", torch::nn::Linear(6, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    drop = register_module("drop", torch::nn::Dropout(0.3));
    second = register_module("second", torch::nn::Linear(8, 3));
    fixed = register_module("fixed", torch::nn::Linear(3, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    return fixed(second(drop(torch::relu(norm(first(x))))));
  }

  bool cannot_be_cloned = false;
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear second{nullptr};
  torch::nn::Linear fixed{nullptr};
};

inline std::shared_ptr<BusyNetImpl> busy_net() {
  return nn::make_seeded(7, [] { return std::make_shared<BusyNetImpl>(); });
}

inline Optimizer optimizer() {
  return AdamW({.lr = 0.02, .weight_decay = 0.1})
      .clip_norm(0.5)
      .average_weights(0.9)
      .group({.names = {"fixed.*"}, .frozen = true});
}

struct Trained {
  std::string weights;
  std::string average;
  double epoch_loss = 0;
  bool operator==(const Trained&) const = default;
};

/// What a training does beside training.
struct Hooks {
  std::function<void(Options&)> options = [](Options&) {};
  std::function<void(const Options&, BusyNetImpl&)> net = [](auto&&...) {};
  std::function<void(const Options&, std::int64_t step)> on_step = [](auto&&...) {};
  std::function<void(const Options&, int epoch)> on_epoch = [](auto&&...) {};
};

inline void set_up(Options& options) {
  options.seed(5).device_iterations(kStepsPerIteration);
  options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
}

inline Trained train(Options options, const Hooks& hooks = {}) {
  set_up(options);
  hooks.options(options);
  DataLoader loader(options, regression(kSamples, 6, 3).set(),
                    {.batch_size = kBatch, .shuffle = true});
  const auto net = busy_net();
  hooks.net(options, *net);
  TrainingModel model(net, options, optimizer(), regression_task());
  model.tell([](const std::string&) {});
  model.on_step([&](std::int64_t step, const StepResult&) { hooks.on_step(options, step); });
  for (const int epoch : model.epochs(kEpochs)) {
    for (auto& iteration : loader) model.step(iteration);
    hooks.on_epoch(options, epoch);
  }
  return {model.digest(), model.digest(WeightsKind::Average), model.epoch_so_far().loss};
}

inline Trained undisturbed() {
  static const Trained trained = [] {
    Trained result;
    run_job(1, kReplicas, [&](const Options& options) { result = train(options); });
    return result;
  }();
  return trained;
}

/// The result of instance 0 of an attempt that ends well.
inline Trained last_attempt(RestartedJob& job, int instances, const Hooks& hooks = {}) {
  Trained result;
  job.attempt(instances, kReplicas, [&](const Options& options) {
    auto trained = train(options, hooks);
    if (options.world().instance() == 0) result = trained;
  });
  return result;
}

/// One instance crashes after a step.
inline Hooks crash_after(std::int64_t step, int instance) {
  return {.on_step = [=](const Options& options, std::int64_t done) {
    if (done == step && options.world().instance() == instance) throw crash();
  }};
}

}  // namespace lockstep::testing
