// A custom training loop with a network and a loader of lockstep, and an optimizer of libtorch.
//   own_loop [network] [steps] [weights.safetensors]
#include <fmt/format.h>
#include <lockstep/lockstep.h>
#include <lockstep/nn/memory/kept_activations.h>
#include <lockstep/nn/model_weights.h>
#include <lockstep/nn/module_model.h>
#include <lockstep/nn/zoo/zoo.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>

namespace data = lockstep::data;
namespace nn = lockstep::nn;

/// The images of a batch. The loader stores them as [samples, height, width, channels], and
/// libtorch expects [samples, channels, height, width].
torch::Tensor images_of(const data::Batch& batch) {
  const auto& shape = batch.fields().at(0).shape;
  return torch::from_blob(batch.values<float>("image").data(),
                          {batch.size(), shape[0], shape[1], shape[2]})
      .permute({0, 3, 1, 2});
}

torch::Tensor labels_of(const data::Batch& batch) {
  return torch::from_blob(batch.values<std::int64_t>("label").data(), {batch.size()}, torch::kLong);
}

int main(int argc, char** argv) try {
  const std::string name = argc > 1 ? argv[1] : "convnet";
  const int steps = argc > 2 ? std::stoi(argv[2]) : 200;
  const auto set = data::open_set("fashion-mnist", data::Split::Train, {});
  const data::TrainOrder order(set->size(), {.batch_size = 64}, {.seed = 2022});
  data::Loader loader(set, data::micro_batches(order, {0, 1}),
                      {.pipeline = data::training_pipeline(
                           data::Augment::Flip, set->fields().front(),
                           {.normalize = data::fashion_mnist_normalize(),
                            .output = {lockstep::DataType::F32, data::Layout::ChannelsLast}})});

  const nn::KeptActivations kept;  // the next step reuses the memory of a step
  const auto net =
      nn::make_network({name, 10, {.height = 28, .width = 28}, {.channels = 1, .seed = 2022}});
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  int step = 0;
  double mean = 0;
  for (auto& batch : loader.epoch(0)) {
    optimizer.zero_grad();
    const auto loss = torch::cross_entropy_loss(net->forward(images_of(batch)), labels_of(batch));
    loss.backward();
    optimizer.step();
    mean += (loss.item<double>() - mean) / (step % 50 + 1);
    if (++step % 50 == 0) fmt::print("step {}: loss {:.3f}\n", step, mean);
    if (step == steps) break;
  }
  const auto model = nn::model_of(net);
  fmt::print("weights: {}\n", digest_of(*model));
  if (argc > 3) save_weights(*model, argv[3]);
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
