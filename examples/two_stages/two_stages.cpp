// A model that is divided over two devices. The split does not change the result.
//   two_stages             one stage
//   two_stages hidden      two stages; the second stage begins with the block `hidden`
//   lockstep run --num-replicas 2 --devices-per-replica 2 --threads-per-device 1 two_stages hidden
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cstdio>

/// The function `blocks` lists the blocks of the module, and the children that each block uses.
struct Net : torch::nn::Cloneable<Net> {
  Net() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(192, 64));
    second = register_module("second", torch::nn::Linear(64, 64));
    third = register_module("third", torch::nn::Linear(64, 10));
  }
  std::vector<lockstep::nn::Block> blocks() {
    return {{"stem", {"first"}, [this](auto x) { return torch::relu(first(x.flatten(1))); }},
            {"hidden", {"second"}, [this](auto x) { return torch::relu(second(x)); }},
            {"head", {"third"}, [this](auto x) { return third(x); }}};
  }

  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
  torch::nn::Linear third{nullptr};
};

int main(int argc, char** argv) try {
  auto world = lockstep::World::init();
  // With more micro-batches in a step, the stages wait less for each other.
  auto options = lockstep::Options().gradient_accumulation(4).seed(2022);
  if (!world.launched()) options.replicas(2).threads_per_device(1);
  if (argc > 1) options.begin_stage(argv[1]);

  const auto set = lockstep::data::synthetic({.size = 2048, .height = 8, .width = 8});
  auto loader = lockstep::DataLoader(options, set, {.batch_size = 16, .shuffle = true});
  auto model = lockstep::TrainingModel([] { return std::make_shared<Net>(); }, options,
                                       lockstep::SGD({.lr = 0.05, .momentum = 0.9}));
  model.compile(loader);
  for (int epoch : model.epochs(3)) {
    for (auto& batch : loader) model.step(batch);
    const auto found = model.epoch_so_far();
    if (world.instance() == 0) {
      std::printf("epoch %d: loss %.3f, accuracy %.1f %%\n", epoch, found.loss, found.accuracy);
    }
  }
  if (world.instance() == 0) {
    std::printf("%zu stages\nweights: %s\n", model.plan().stages.size(), model.digest().c_str());
  }
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
