#include <lockstep/lockstep.h>

#include <iostream>

/// A data set of the consumer's own.
class Squares : public lockstep::data::Dataset {
 public:
  Squares() : Dataset({{"square", lockstep::DataType::I64, {}}}) {}
  std::int64_t size() const override { return 10; }
  void sample(std::int64_t index, lockstep::data::Sample& sample) const override {
    sample.set<std::int64_t>(0, index * index);
  }
};

std::int64_t sum_of_squares() {
  namespace data = lockstep::data;
  const data::TrainOrder order(10, {.batch_size = 5}, {.seed = 1});
  data::Loader loader(std::make_shared<Squares>(), data::micro_batches(order, {0, 1}));
  std::int64_t sum = 0;
  auto bar = lockstep::progress(loader.epoch(0), "[Epoch {:02}]", 1);
  for (auto& batch : bar) {
    for (const auto square : batch.values<std::int64_t>("square")) sum += square;
    bar.postfix("sum", sum);
  }
  return sum;
}

int main() {
  const auto world = lockstep::World::init();
  int sum = world.instance() + 1;
  world.all_reduce({&sum, 1, lockstep::DataType::I32});
  std::cout << "instance " << world.instance() << " of " << world.num_instances() << ", sum " << sum
            << ", squares " << sum_of_squares() << '\n';
}
