// A custom model: any torch::nn::Module, with its own input, loss and metrics. Run it directly, or
// in two instances:
//   lockstep run --num-replicas 4 --num-instances 2 own_model
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cstdio>

/// Compresses images into eight numbers, and reconstructs the images from these numbers.
struct Autoencoder : torch::nn::Module {
  explicit Autoencoder(std::int64_t pixels) {
    encode = register_module("encode", torch::nn::Linear(pixels, 8));
    decode = register_module("decode", torch::nn::Linear(8, pixels));
  }
  torch::Tensor forward(const torch::Tensor& x) { return decode(torch::tanh(encode(x))); }

  torch::nn::Linear encode{nullptr};
  torch::nn::Linear decode{nullptr};
};

torch::Tensor flat(const lockstep::Fields& fields) {
  return fields["image"].flatten(1);
}

int main() try {
  auto world = lockstep::World::init();
  auto options = lockstep::Options().gradient_accumulation(2).seed(2022);
  if (!world.launched()) options.replicas(4);

  constexpr std::int64_t kSide = 12;
  const auto set =
      lockstep::data::synthetic({.size = 2048, .height = kSide, .width = kSide, .channels = 1});
  auto loader = lockstep::DataLoader(options, set, {.batch_size = 16, .shuffle = true});

  const lockstep::Task task{
      .input = flat,
      .loss = [](const torch::Tensor& output,
                 const lockstep::Fields& fields) { return torch::mse_loss(output, flat(fields)); },
      // A metric returns the sum over the samples. lockstep reports the mean.
      .metrics = {
          {.name = "largest error", .sum = [](const torch::Tensor& output, const auto& fields) {
             return std::get<0>((output - flat(fields)).abs().max(1)).sum();
           }}}};
  // This module cannot be cloned, so the model gets a function that creates it.
  const auto make = [] { return std::make_shared<Autoencoder>(kSide * kSide); };
  auto model = lockstep::TrainingModel(make, options, lockstep::AdamW({.lr = 0.01}), task);
  for (int epoch : model.epochs(4)) {
    for (auto& batch : loader) model.step(batch);
    const auto found = model.epoch_so_far();
    if (world.instance() == 0) {
      std::printf("epoch %d: loss %.4f, %s %.3f\n", epoch, found.loss,
                  found.metrics.front().name.c_str(), found.metrics.front().value);
    }
  }
  if (world.instance() == 0) std::printf("weights: %s\n", model.digest().c_str());
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
