#include <lockstep/lockstep.h>

#include <iostream>

/// The program of the documentation, on pictures that are made up.
int main() {
  auto world = lockstep::World::init();
  auto options = lockstep::Options()
                     .gradient_accumulation(2)
                     .device_iterations(2)
                     .reduction(lockstep::Reduction::Sum)
                     .seed(2022)
                     .cache("cache");
  if (!world.launched()) options.replicas(2);

  auto data = lockstep::data::synthetic({.size = 128, .height = 8, .width = 8});
  auto loader = lockstep::DataLoader(options, data, {.batch_size = 4, .shuffle = true});
  auto model =
      lockstep::TrainingModel(lockstep::nn::resnet20(10), options, lockstep::AdamW({.lr = 1e-3}));
  for (int epoch : model.epochs(2)) {
    auto bar = lockstep::progress(loader, "[Epoch {:02}]", epoch);
    for (auto& batch : bar) {
      auto result = model.step(batch);
      bar.postfix("loss", result.loss, "acc", result.accuracy);
    }
  }
  model.save("resnet20.safetensors");
  std::cout << "trained " << model.steps() << " steps, weights " << model.digest() << '\n';
}
