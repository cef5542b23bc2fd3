#include "bench/train/update_times.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/zoo/zoo.h"
#include "lockstep/train/backends/replica.h"
#include "lockstep/train/state/weight_update.h"

namespace lockstep::bench {

using train::LeafTotals;
using train::Replica;
using train::StateShape;
using train::WeightLayout;
using train::WeightUpdate;

namespace {

constexpr double kLr = 0.1;

/// A training without forward and backward.
class UpdateBench {
 public:
  UpdateBench(comm::Communicator& communicator, const std::string& network)
      : communicator_(communicator),
        model_(nn::model_of(nn::make_network({network, 1000, {224, 224}, {}}))),
        weights_(train::lay_out_weights(nn::slots_of(model_->tensors()), optimizer_)),
        shape_(weights_, optimizer_.num_states(), /*has_average=*/false),
        totals_(weights_, communicator.size(), 0),
        update_(train::update_rules(optimizer_, communicator.size(), communicator.size(), false),
                weights_, shape_, totals_),
        sum_(communicator,
             {.count = weights_.num_elements,
              .num_totals = static_cast<std::int64_t>(totals_.count()),
              .blocks = weights_.blocks,
              .values_per_block = WeightUpdate::kValuesPerBlock,
              .state_bytes = shape_.bytes()},
             "update"),
        replica_(communicator.rank(), std::move(model_), weights_, shape_) {
    sum_.publish();  // all weights are zero
    replica_.cut({0});
    replica_.attach(shape_.weights(sum_.state()).data(), sum_.state());
    for (const auto& parameter : weights_.parameters) {
      gradients_.push_back(at::empty_strided(parameter.sizes, parameter.strides));
    }
  }

  double run_once() {
    write_gradients();
    communicator_.barrier("update");
    Stopwatch watch;
    const auto count = static_cast<std::size_t>(weights_.num_elements) + totals_.count();
    const std::span leaf(static_cast<float*>(sum_.leaf()), count);
    replica_.write_leaf(0, leaf, totals_, {}, sum_.state());
    replica_.write_results(leaf, totals_, {}, {});
    sum_.take_leaf();
    sum_.reduce({.divisor = communicator_.size(), .num_divided = weights_.num_parameters});
    const train::UpdateInput input{
        .current = sum_.state(), .next = sum_.next_state(), .totals = sum_.totals()};
    for (const auto part : sum_.parts()) update_.update(part, input, {});
    update_.end_parts();
    if (sum_.is_first_on_host()) update_.count_updates(input, {});
    sum_.commit();
    return watch.lap();
  }

  /// The gradient of rank r is r + 1 everywhere, so after one step each weight is -lr times their
  /// mean.
  void check_first_step() const {
    const auto expected = -kLr * (communicator_.size() + 1) / 2;
    for (const auto& parameter : weights_.parameters) {
      const auto found = view_of(parameter, shape_.weights(sum_.state()).data());
      if ((found - expected).abs().max().item<double>() < 1e-6) continue;
      throw Error(ErrorKind::Bug,
                  fmt::format("bench train: '{}' did not become {}", parameter.name, expected));
    }
  }

 private:
  void write_gradients() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      gradients_[i].fill_(communicator_.rank() + 1);
      at::Tensor(replica_.slots()[weights_.parameters[i].slot].tensor()).mutable_grad() =
          gradients_[i];
    }
  }

  comm::Communicator& communicator_;
  Optimizer optimizer_ = SGD({.lr = kLr});
  std::unique_ptr<nn::Model> model_;
  WeightLayout weights_;
  StateShape shape_;
  LeafTotals totals_;
  WeightUpdate update_;
  comm::ShardedUpdate sum_;
  Replica replica_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace

std::vector<double> time_updates(const World& world, const std::string& network, int rounds) {
  auto& communicator = world.communicator();
  UpdateBench bench(communicator, network);
  bench.run_once();
  bench.check_first_step();
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) seconds.push_back(bench.run_once());
  return seconds;
}

}  // namespace lockstep::bench
