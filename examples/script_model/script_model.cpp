// Trains a network that Python has saved with torch.jit.script(net).save("net.pt"). The input of
// the network is images with three channels.
//   script_model net.pt [weights.safetensors]
#include <lockstep/lockstep.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc < 2) {
    throw lockstep::Error(lockstep::ErrorKind::Options,
                          "script_model: expected a TorchScript file, found nothing",
                          "script_model net.pt");
  }
  auto world = lockstep::World::init();
  auto options = lockstep::Options().seed(2022);
  if (!world.launched()) options.replicas(2);

  const auto set = lockstep::data::synthetic({.size = 512, .classes = 4, .height = 8, .width = 8});
  auto loader = lockstep::DataLoader(options, set, {.batch_size = 16, .shuffle = true});
  auto model = lockstep::TrainingModel(lockstep::nn::load_script(argv[1]), options,
                                       lockstep::AdamW({.lr = 0.01}));
  for (int epoch : model.epochs(3)) {
    for (auto& batch : loader) model.step(batch);
    const auto found = model.epoch_so_far();
    if (world.instance() == 0) {
      std::printf("epoch %d: loss %.3f, accuracy %.1f %%\n", epoch, found.loss, found.accuracy);
    }
  }
  if (argc > 2) model.save(argv[2]);  // with the names of the parameters in Python
  if (world.instance() == 0) std::printf("weights: %s\n", model.digest().c_str());
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
