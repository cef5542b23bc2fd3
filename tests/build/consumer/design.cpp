// The program of the design, as it is written there: it has to compile.
#include <lockstep/lockstep.h>

int main() {
  auto world = lockstep::World::init();  // alone, or one of many
  auto options = lockstep::Options()
                     .gradient_accumulation(8)
                     .device_iterations(4)
                     .reduction(lockstep::Reduction::Sum)
                     .seed(2022)
                     .cache("cache");
  if (!world.launched()) options.replicas(8);  // under the launcher it is set already

  auto data = lockstep::data::cifar10("datasets", lockstep::data::Split::Train);
  auto loader = lockstep::DataLoader(options, data, {.batch_size = 64, .shuffle = true});
  auto model =
      lockstep::TrainingModel(lockstep::nn::resnet101(10), options, lockstep::AdamW({.lr = 1e-3}));
  for (int epoch : model.epochs(5)) {  // after a crash or with --resume, goes on where it was
    auto bar = lockstep::progress(loader, "[Epoch {:02}]", epoch);  // silent except on instance 0
    for (auto& batch : bar) {
      auto result = model.step(batch);  // D optimizer steps on every replica
      bar.postfix("loss", result.loss, "acc", result.accuracy);  // already the mean over the job
    }
  }
  model.save("resnet101.safetensors");
}
