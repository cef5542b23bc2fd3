#include "bench/train/step_times.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <chrono>
#include <functional>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/memory/kept_activations.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/multiply_adds.h"
#include "lockstep/nn/open_model.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::bench {

using nn::Mode;
using nn::Model;

namespace {

double time(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Images and labels. They stay the same; their activations do not fit into any cache.
struct Batch {
  at::Tensor pictures;
  at::Tensor labels;
};

Batch make_batch(const StepBench& bench, std::int64_t classes) {
  return nn::make_seeded(1, [&] {
    const auto& [model, batch_size, threads, rounds] = bench;
    const auto pictures = at::randn({batch_size, model.channels, model.height, model.width});
    return Batch{pictures.contiguous(at::MemoryFormat::ChannelsLast),
                 at::randint(classes, {batch_size}, at::kLong)};
  });
}

/// Allocates new gradients in each step, as in the engine, which takes them.
void step(Model& model, const Batch& batch) {
  for (const auto& named : model.tensors()) {
    if (named.tensor.grad().defined()) named.tensor.mutable_grad().reset();
  }
  const auto loss = at::cross_entropy_loss(model.forward(batch.pictures), batch.labels);
  loss.backward();
}

/// The same network with libtorch's own layers and the same weights. Returns nothing for a
/// TorchScript file.
std::unique_ptr<Model> libtorch_model(const nn::ModelRequest& request, const Model& ours) {
  if (request.model.ends_with(".pt")) return nullptr;
  const auto net = nn::make_network(nn::network_request(request));
  for (const auto& module : net->modules(/*include_self=*/false)) {
    if (auto* const norm = module->as<nn::BatchNormImpl>()) norm->use(nn::NormKernels::Libtorch);
  }
  auto model = nn::model_of(net);
  nn::copy_and_tie(ours.tensors(), model->tensors());
  return model;
}

/// Computes logits in evaluation mode. In training mode, batch norm of few values amplifies small
/// differences.
at::Tensor evaluate(Model& model, const Batch& batch) {
  const torch::NoGradGuard no_grad;
  model.set_mode(Mode::Evaluate);
  auto logits = model.forward(batch.pictures);
  model.set_mode(Mode::Train);
  return logits;
}

void check_equal(const at::Tensor& ours, const at::Tensor& theirs) {
  const auto difference = (ours - theirs).abs().max().item<double>();
  if (difference <= 1e-3 * theirs.abs().max().item<double>() + 1e-6) return;
  throw Error(ErrorKind::Bug,
              fmt::format("bench train: logits with lockstep's layers differ by {} from those with "
                          "libtorch's",
                          difference));
}

double measure_sgemm() {
  constexpr std::int64_t kSize = 1024;
  const auto left = at::randn({kSize, kSize});
  const auto right = at::randn({kSize, kSize});
  double best = 0;
  for (int round = 0; round < 8; ++round) {
    const auto seconds = time([&] { at::mm(left, right); });
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
  }
  return best;
}

}  // namespace

StepTimes time_steps(const StepBench& bench) {
  nn::use_compute_threads(bench.threads);
  StepTimes times;
  times.sgemm_flops = measure_sgemm();
  auto request = bench.model;
  request.samples = bench.batch_size;
  const auto [ours, classes] = nn::open_model(request);
  return nn::with_torch_errors("bench train", [&, &model = *ours, count = classes] {
    const auto theirs = libtorch_model(request, model);
    const auto batch = make_batch(bench, count);
    const auto step_ours = [&] {
      const nn::KeptActivations kept;
      step(model, batch);
    };
    times.flops =
        3 * 2.0 * static_cast<double>(nn::count_multiply_adds([&] { evaluate(model, batch); }));
    if (theirs) check_equal(evaluate(model, batch), evaluate(*theirs, batch));
    for (int round = -1; round < bench.rounds; ++round) {
      const auto seconds = time(step_ours);
      const auto libtorch_seconds = theirs ? time([&] { step(*theirs, batch); }) : 0;
      if (round < 0) continue;  // warm-up
      times.seconds.push_back(seconds);
      if (theirs) times.libtorch_seconds.push_back(libtorch_seconds);
    }
    return times;
  });
}

}  // namespace lockstep::bench
