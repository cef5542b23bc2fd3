// A custom dataset with named fields of any shape and type. Here the samples are points of two
// spirals. Run it directly, or in two instances:
//   lockstep run --num-replicas 4 --num-instances 2 own_data
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

/// Point i is on spiral i mod 2. Each sample is computed from its index, so nothing is stored.
class Spirals : public lockstep::data::Dataset {
 public:
  Spirals()
      : Dataset(
            {{"point", lockstep::DataType::F32, {2}}, {"spiral", lockstep::DataType::I64, {}}}) {}
  std::int64_t size() const override { return 4096; }
  void sample(std::int64_t index, lockstep::data::Sample& sample) const override {
    const auto along = static_cast<float>(index) / static_cast<float>(size());
    const auto spiral = index % 2;
    const auto angle = 6 * along + 3.14159F * static_cast<float>(spiral);
    const auto point = sample.write<float>(0);
    point[0] = along * std::cos(angle);
    point[1] = along * std::sin(angle);
    sample.set<std::int64_t>(1, spiral);
  }
};

int main() try {
  auto world = lockstep::World::init();
  auto options = lockstep::Options().seed(2022);
  if (!world.launched()) options.replicas(4);

  auto loader = lockstep::DataLoader(options, std::make_shared<Spirals>(),
                                     {.batch_size = 16, .shuffle = true});
  // The loss and the metrics name the field that they compare with. The first field is the input of
  // the model.
  const lockstep::Task task{.loss = lockstep::cross_entropy("spiral"),
                            .metrics = {lockstep::accuracy("spiral")}};
  const auto make = [] {
    return torch::nn::Sequential(torch::nn::Linear(2, 32), torch::nn::Tanh(),
                                 torch::nn::Linear(32, 32), torch::nn::Tanh(),
                                 torch::nn::Linear(32, 2));
  };
  auto model = lockstep::TrainingModel(make, options, lockstep::Adam({.lr = 0.01}), task);
  for (int epoch : model.epochs(10)) {
    for (auto& batch : loader) model.step(batch);
    const auto found = model.epoch_so_far();
    if (world.instance() == 0 && epoch % 5 == 0) {
      std::printf("epoch %d: loss %.3f, accuracy %.1f %%\n", epoch, found.loss, found.accuracy);
    }
  }
  if (world.instance() == 0) std::printf("weights: %s\n", model.digest().c_str());
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}
