#include <torch/types.h>

#include <algorithm>

#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/engine.h"
#include "lockstep/train/evaluation_run.h"

namespace lockstep::train {

/// Sets a model to evaluation mode, and back to training mode when destroyed.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Model& model) : model_(model) { model_.set_mode(nn::Mode::Evaluate); }
  ~EvaluationMode() { model_.set_mode(nn::Mode::Train); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Model& model_;
};

EvaluationMeans Engine::evaluate(EvaluationLoader& loader, const EvaluationTask& task,
                                 const std::function<void(std::int64_t)>& on_batch) {
  EvaluationRun run{
      .loader = loader, .task = task, .on_batch = on_batch, .width = metrics().size() + 1};
  guarded([&] {
    threads_.run(
        [&](int device) { nn::with_torch_errors("evaluate", [&] { evaluate_on(device, run); }); });
    const auto count = static_cast<std::int64_t>(run.sums.size());
    communicator_.all_reduce({run.sums.data(), count, DataType::F64, "evaluation"});
    if (run.has_classes()) run.gather_classes(communicator_);
  });
  std::vector<double> total(run.width);
  for (std::size_t i = 0; i < run.sums.size(); ++i) total[i % run.width] += run.sums[i];
  const auto samples = static_cast<double>(loader.samples());
  EvaluationMeans evaluation{.loss = total[0] / samples, .metrics = {}};
  for (std::size_t i = 0; i < metrics().size(); ++i) {
    evaluation.metrics.push_back(metrics()[i].scale * total[i + 1] / samples);
  }
  if (run.has_classes()) evaluation.confusion = run.confusion();
  return evaluation;
}

/// Every device computes one whole replica, not a stage: stages would only wait for each other.
void Engine::evaluate_on(int device, EvaluationRun& run) {
  if (gpu_) return evaluate_on_gpu(run);
  if (device >= std::ssize(replicas_)) return;
  const torch::NoGradGuard no_grad;
  auto& replica = replicas_[static_cast<std::size_t>(device)];
  replica.attach(weights(run.task.which, updates_.state()), updates_.state());
  const EvaluationMode mode(replica.model());
  while (const auto batch = run.take()) {
    const nn::RandomScope scope(
        {.seed = setup_.options.seed(), .step = static_cast<std::uint64_t>(batch->place().batch)});
    run.put(*batch,
            replica.evaluate(run.loader.tensors()(*batch), setup_.task, run.task.class_field));
    communicator_.heartbeat("evaluating");
  }
}

at::Tensor Engine::predict(const at::Tensor& input, Which which) {
  at::Tensor output;
  if (gpu_) {
    nn::with_torch_errors("predict", [&] { output = predict_on_gpu(input, which); });
    return output;
  }
  threads_.run([&](int device) {
    if (device != 0) return;
    nn::with_torch_errors("predict", [&] {
      const torch::NoGradGuard no_grad;
      const nn::RandomScope scope({.seed = setup_.options.seed()});
      auto& replica = replicas_.front();
      replica.attach(weights(which, updates_.state()), updates_.state());
      const EvaluationMode mode(replica.model());
      output = replica.model().forward(input);
    });
  });
  return output;
}

}  // namespace lockstep::train
