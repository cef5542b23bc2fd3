// A custom training loop with a strategy, as in TensorFlow, and then a training with `Trainer`.
// Without the launcher it uses four devices of this machine. The launcher sets the number of
// replicas:
//   lockstep run --num-replicas 4 --num-instances 2 strategies
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cstdio>

using lockstep::ReplicaContext;
using lockstep::comm::ReduceOp;

/// The samples are points of the line y = 3x - 1.
constexpr std::int64_t kSamples = 256;
constexpr std::int64_t kBatch = 16;

void own_loop(const lockstep::Strategy& strategy) {
  const auto x = torch::linspace(-1, 1, kSamples).unsqueeze(1);
  const auto y = 3 * x - 1;

  const auto scope = strategy.scope();  // variables of the scope are equal on all replicas
  const auto line = scope.module([] { return torch::nn::Linear(1, 1); });
  const auto seen = scope.on_read(torch::zeros({}, torch::kLong), ReduceOp::Sum);
  auto optimizer = scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.3), line);

  double loss = 0;
  for (std::int64_t step = 0; step < 60; ++step) {
    const auto losses = strategy.run([&](const ReplicaContext& replica) {
      const auto batch = step * replica.num_replicas_in_sync + replica.replica;
      const auto first = batch * kBatch % kSamples;
      const auto error = torch::mse_loss(line[replica].forward(x.narrow(0, first, kBatch)),
                                         y.narrow(0, first, kBatch));
      error.backward();
      seen[replica] += kBatch;
      return error.item<double>();
    });
    optimizer.step();  // with the mean of the gradients of all replicas
    loss = strategy.reduce(ReduceOp::Mean, losses);
  }
  const auto samples = seen.read().item<std::int64_t>();  // computes the sum over all replicas
  if (strategy.first_replica() != 0) return;
  std::printf("own loop: %d replicas, %lld samples, loss %.5f, y = %.3fx + %.3f\n",
              strategy.num_replicas_in_sync(), static_cast<long long>(samples), loss,
              line.module()->weight.item<float>(), line.module()->bias.item<float>());
}

void no_loop(const lockstep::Strategy& strategy) {
  const auto& options = strategy.options();
  const auto train = lockstep::data::synthetic({.size = 1024, .height = 8, .width = 8});
  const auto test = lockstep::data::synthetic(
      {.size = 256, .height = 8, .width = 8, .split = lockstep::data::Split::Test});
  auto loader = lockstep::DataLoader(options, train, {.batch_size = 16, .shuffle = true});
  auto test_loader = lockstep::EvaluationLoader(options, test, {.batch_size = 16});

  lockstep::ui::TrainDisplay display(lockstep::ui::output_of_this_process(),
                                     lockstep::ui::standard_error());
  auto trainer = lockstep::Trainer(lockstep::nn::resnet20(10, {.seed = 2022}), options,
                                   lockstep::AdamW({.lr = 1e-3}));
  trainer.add(lockstep::callbacks::early_stop({.patience = 2}))
      .add(lockstep::callbacks::log(display));
  trainer.fit(loader, {.epochs = 2, .validation = &test_loader});
  const auto digest = trainer.model().digest();
  if (strategy.first_replica() == 0) std::printf("weights: %s\n", digest.c_str());
}

int main() try {
  const auto options = lockstep::Options().seed(2022);
  const auto world = lockstep::World::init();
  // With two devices per replica, eight devices would also be four replicas.
  const auto strategy = world.launched() ? lockstep::DistributedStrategy(options)
                                         : lockstep::DistributedStrategy(options).devices(4);
  own_loop(strategy);
  no_loop(strategy);
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
