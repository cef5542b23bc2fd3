#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <iostream>

namespace data = lockstep::data;

lockstep::Options options() {
  auto options = lockstep::Options().gradient_accumulation(2).device_iterations(2).seed(2022);
  if (!options.world().launched()) options.replicas(2);
  return options;
}

/// A loop of the consumer's own over a training model.
std::string digest_of_loop(const lockstep::Options& with, const data::DatasetPtr& set) {
  auto loader = lockstep::DataLoader(with, set, {.batch_size = 4, .shuffle = true});
  auto model =
      lockstep::TrainingModel(lockstep::nn::resnet20(10), with, lockstep::AdamW({.lr = 1e-3}));
  for (int epoch : model.epochs(2)) {
    auto bar = lockstep::progress(loader, "[Epoch {:02}]", epoch);
    for (auto& batch : bar) {
      auto result = model.step(batch);
      bar.postfix("loss", result.loss, "acc", result.accuracy);
    }
  }
  model.save("resnet20.safetensors");
  return model.digest();
}

/// The same without one.
std::string digest_of_fit(const lockstep::Options& with, const data::DatasetPtr& set) {
  auto loader = lockstep::DataLoader(with, set, {.batch_size = 4, .shuffle = true});
  auto trainer = lockstep::Trainer(lockstep::nn::resnet20(10), with, lockstep::AdamW({.lr = 1e-3}));
  trainer.add(lockstep::callbacks::early_stop({.patience = 5}));
  trainer.fit(loader, {.epochs = 2});
  return trainer.model().digest();
}

/// Replicas that add up their numbers, and what each of them keeps.
double sum_of_replicas() {
  const auto strategy = lockstep::DistributedStrategy(options());
  const auto seen = strategy.scope().on_read(torch::zeros({}), lockstep::comm::ReduceOp::Sum);
  const auto numbers = strategy.run([&](const lockstep::ReplicaContext& replica) {
    seen[replica] += 10;
    return replica.replica + 1.0;
  });
  return strategy.reduce(lockstep::comm::ReduceOp::Sum, numbers) + seen.read().item<double>();
}

int main() {
  const auto set = data::synthetic({.size = 128, .height = 8, .width = 8});
  const auto by_loop = digest_of_loop(options(), set);
  const bool is_same = digest_of_fit(options(), set) == by_loop;
  const auto sum = sum_of_replicas();
  if (lockstep::World::init().instance() != 0) return 0;
  std::cout << "weights " << by_loop << (is_same ? ", twice" : ", then others") << ", sum " << sum
            << '\n';
}
