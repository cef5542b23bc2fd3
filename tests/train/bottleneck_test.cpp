// The bottleneck of a training is the part that has the delay. The shares depend on the load of the
// machine. monitor/bottleneck_test.cpp checks them with given times.
#include "lockstep/monitor/status/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "tests/comm/hosts_group.h"
#include "tests/train/jobs.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using Kind = monitor::Bottleneck::Kind;
using std::chrono::microseconds;

// On a loaded machine threads also wait for a core. The delays are long, so that these waits are a
// small share.
constexpr auto kSlowSample = 20ms;
constexpr auto kSlowPass = 80ms;
constexpr auto kSlowLink = 30ms;

/// A dataset that sleeps before each sample.
class SlowSet final : public data::Dataset {
 public:
  SlowSet(data::DatasetPtr set, microseconds delay)
      : Dataset(set->fields()), set_(std::move(set)), delay_(delay) {}
  std::int64_t size() const override { return set_->size(); }
  void sample(std::int64_t index, data::Sample& sample) const override {
    std::this_thread::sleep_for(delay_);
    set_->sample(index, sample);
  }

 private:
  data::DatasetPtr set_;
  microseconds delay_;
};

/// A network that sleeps in each pass.
struct SlowNetImpl : torch::nn::Cloneable<SlowNetImpl> {
  explicit SlowNetImpl(microseconds slow) : delay(slow) { reset(); }
  void reset() override { layer = register_module("layer", torch::nn::Linear(6, 3)); }
  at::Tensor forward(const at::Tensor& x) {
    std::this_thread::sleep_for(delay);
    return layer(x);
  }
  microseconds delay;
  torch::nn::Linear layer{nullptr};
};

/// The delays of each instance.
struct Delays {
  std::vector<microseconds> sample{0us, 0us};
  std::vector<microseconds> forward{0us, 0us};
};

monitor::InstanceTimes train(Options options, const Delays& delays) {
  const auto instance = options.world().instance();
  const auto at = static_cast<std::size_t>(instance);
  options.seed(5);
  DataLoader loader(options,
                    std::make_shared<SlowSet>(regression(64, 6, 3).set(), delays.sample[at]),
                    {.batch_size = 4, .shuffle = true, .workers = 1});
  auto net = nn::make_seeded(7, [&] { return std::make_shared<SlowNetImpl>(delays.forward[at]); });
  TrainingModel model(net, options, SGD({.lr = 0.01}), regression_task());
  model.compile(loader);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& iteration : loader) model.step(iteration);
  }
  const auto perf = model.perf();
  return {instance,
          {.data = perf.data.total,
           .compute = perf.compute.total,
           .reduce = perf.reduce.total,
           .idle = perf.idle.total}};
}

class Measured {
 public:
  void take(const monitor::InstanceTimes& times) {
    const std::lock_guard lock(mutex_);
    times_.push_back(times);
  }
  monitor::Bottleneck bottleneck(int hosts = 1) const {
    const auto found = monitor::find_bottleneck(times_, {.hosts = hosts, .workers = 1});
    EXPECT_TRUE(found);
    return found.value_or(monitor::Bottleneck{});
  }

 private:
  std::mutex mutex_;
  std::vector<monitor::InstanceTimes> times_;
};

monitor::Bottleneck bottleneck_with(const Delays& delays) {
  Measured measured;
  run_job(2, 2, [&](const Options& options) { measured.take(train(options, delays)); });
  return measured.bottleneck();
}

TEST(InjectedDelayTest, InTheLoaderIsInputBound) {
  const auto found = bottleneck_with({.sample = {kSlowSample, kSlowSample}});
  EXPECT_EQ(found.kind, Kind::Input) << found.text;
  EXPECT_THAT(found.text, ::testing::HasSubstr("% of the time for data"));
  EXPECT_THAT(found.text, ::testing::EndsWith("; try --num-workers 2"));
}

TEST(InjectedDelayTest, InTheLoaderOfOneInstanceNamesIt) {
  const auto found = bottleneck_with({.sample = {0us, kSlowSample}});
  EXPECT_EQ(found.kind, Kind::Input) << found.text;
  EXPECT_EQ(found.slowest, 1);
}

TEST(InjectedDelayTest, InTheComputationIsComputeBound) {
  const auto found = bottleneck_with({.forward = {kSlowPass, kSlowPass}});
  EXPECT_EQ(found.kind, Kind::Compute) << found.text;
}

TEST(InjectedDelayTest, InTheComputationOfOneInstanceNamesIt) {
  const auto found = bottleneck_with({.forward = {0us, kSlowPass}});
  EXPECT_EQ(found.kind, Kind::Uneven) << found.text;
  EXPECT_EQ(found.slowest, 1);
}

TEST(InjectedDelayTest, InTheNetworkIsNetworkBound) {
  Measured measured;
  HostsGroup group({{0}, {1}});
  group.slow_down(kSlowLink);
  run_hosts(group, [&](comm::Communicator& communicator) {
    const auto identity = identity_of(communicator.rank(), 2, 2);
    measured.take(train(Options(World(identity, communicator)), {}));
  });
  const auto found = measured.bottleneck(2);
  EXPECT_EQ(found.kind, Kind::Network) << found.text;
}

}  // namespace
}  // namespace lockstep::testing
