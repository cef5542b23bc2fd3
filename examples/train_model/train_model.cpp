// Trains a ResNet-20 on Fashion-MNIST with several replicas. Run it directly, or in two instances:
//   train_model [epochs [samples [weights.safetensors]]]
//   lockstep run --num-replicas 4 --num-instances 2 train_model

#include <lockstep/lockstep.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) try {
  const int epochs = argc > 1 ? std::stoi(argv[1]) : 1;
  const std::int64_t samples = argc > 2 ? std::stoll(argv[2]) : 8192;

  auto world = lockstep::World::init();  // connects this process to its job
  auto options = lockstep::Options().gradient_accumulation(2).device_iterations(4).seed(2022);
  if (!world.launched()) options.replicas(4);  // the launcher sets the number itself

  auto data = lockstep::data::fashion_mnist(lockstep::data::Split::Train);
  auto test = lockstep::data::fashion_mnist(lockstep::data::Split::Test);
  auto loader =
      lockstep::DataLoader(options, data, {.batch_size = 32, .shuffle = true, .limit = samples});
  auto test_loader = lockstep::EvaluationLoader(options, test, {.batch_size = 32, .limit = 1000});
  auto model =
      lockstep::TrainingModel(lockstep::nn::resnet20(10, {.channels = 1, .seed = options.seed()}),
                              options, lockstep::AdamW({.lr = 1e-3}));

  for (int epoch : model.epochs(epochs)) {
    auto bar = lockstep::progress(loader, "[Epoch {:02}]", epoch);  // visible only on instance 0
    for (auto& batch : bar) {
      auto result = model.step(batch);  // D optimizer steps on every replica
      bar.postfix("loss", result.loss, "acc", result.accuracy);  // means over all replicas
    }
  }
  const auto found = model.evaluate(test_loader);
  if (world.instance() == 0) {
    std::printf("test accuracy %.1f %%\nweights: %s\n", found.accuracy, model.digest().c_str());
  }
  if (argc > 3) model.save(argv[3]);
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
