#include "lockstep/train/state/shared_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "lockstep/train/state/checkpoint_copy.h"
#include "tests/support/errors.h"
#include "tests/support/subprocess.h"
#include "tests/train/jobs.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::eventually;
using testing::expect_error;
using testing::is_asleep;
using testing::RestartedJob;
using testing::run_job;

struct Net {
  std::unique_ptr<nn::Model> model = nn::model_of(testing::small_net(2, 3, 1));
  std::vector<nn::Slot> slots = nn::slots_of(model->tensors());
};

StateSizes sizes_of(const Options& options) {
  return {.num_states = 1,
          .has_average = true,
          .replicas = 2,
          .local_leaves = options.world().num_local_replicas()};
}

void publish(SharedState& state, float weight, std::int64_t steps) {
  state.publish([&](std::byte* next, float*) {
    std::memset(next, 0, state.shape().bytes());
    state.shape().weights(next)[0] = weight;
    state.shape().progress(next).steps = steps;
  });
}

TEST(SharedStateTest, AllInstancesSeeTheVersionThatInstance0Publishes) {
  run_job(2, 2, [](const Options& options) {
    const Net net;
    auto& communicator = options.world().communicator();
    SharedState state(communicator, lay_out_weights(net.slots, SGD({.momentum = 0.9})),
                      sizes_of(options), 1);
    EXPECT_FALSE(state.is_recovered());
    publish(state, static_cast<float>(7 + communicator.rank()), 3);
    EXPECT_EQ(state.version(), 1U);
    EXPECT_EQ(state.shape().weights(state.current())[0], 7);
    EXPECT_EQ(state.progress().steps, 3);
    communicator.barrier();
  });
}

TEST(SharedStateTest, SurvivesARestartIfTheFingerprintIsTheSame) {
  RestartedJob job;
  const auto attempt = [&](std::uint64_t fingerprint, auto&& function) {
    job.attempt(2, 2, [&](const Options& options) {
      const Net net;
      SharedState state(options.world().communicator(), lay_out_weights(net.slots, SGD()),
                        sizes_of(options), fingerprint);
      function(state);
      options.world().communicator().barrier();
    });
  };
  attempt(5, [](SharedState& state) {
    publish(state, 1, 10);
    publish(state, 2, 11);
    state.keep_finished_epochs(4);
    state.keep_loader_print(99);
  });
  attempt(5, [](SharedState& state) {
    EXPECT_TRUE(state.is_recovered());
    EXPECT_EQ(state.shape().weights(state.current())[0], 2);
    EXPECT_EQ(state.progress().steps, 11);
    EXPECT_EQ(state.finished_epochs(), 4);
    EXPECT_EQ(state.loader_print(), 99U);
  });
  attempt(6, [](SharedState& state) { EXPECT_FALSE(state.is_recovered()); });
}

TEST(SharedStateTest, CountsItsMemory) {
  run_job(1, 2, [](const Options& options) {
    const Net net;
    auto layout = lay_out_weights(net.slots, SGD({.momentum = 0.9}));
    const auto elements = layout.num_parameters;
    const SharedState state(options.world().communicator(), std::move(layout), sizes_of(options),
                            1);
    EXPECT_EQ(state.memory().weights, elements * 4);
    EXPECT_EQ(state.memory().optimizer, elements * 4 * 2) << "momentum and average";
    EXPECT_GT(state.memory().shared, state.memory().weights + state.memory().optimizer);
  });
}

TEST(SharedStateTest, RefusesAnAverageThatIsNotKept) {
  const Net net;
  const auto layout = lay_out_weights(net.slots, SGD());
  const StateShape shape(layout, 0, /*has_average=*/false);
  const std::vector<std::byte> state(shape.bytes());
  EXPECT_EQ(weights_in(shape, state.data(), WeightsKind::Trained),
            shape.weights(state.data()).data());
  expect_error([&] { weights_in(shape, state.data(), WeightsKind::Average); }, ErrorKind::Options,
               "no average of the weights is kept");
}

class CheckpointCopyTest : public ::testing::Test {
 protected:
  CheckpointCopyTest() { publish(state_, 1, 1); }

  Options options_ = testing::alone(2);
  Net net_;
  Optimizer optimizer_ = SGD({.momentum = 0.9}).average_weights(0.5);
  SharedState state_{options_.world().communicator(),
                     lay_out_weights(net_.slots, optimizer_),
                     {.num_states = 1, .has_average = true, .replicas = 2, .local_leaves = 2},
                     1};
  CheckpointCopy copy_{state_,
                       StateTensors(state_.weights(), state_.shape(), net_.slots, optimizer_)};
};

TEST_F(CheckpointCopyTest, CopiesTheVersionWhileTheNextOneIsPublished) {
  state_.keep_finished_epochs(3);
  const auto copy = copy_.begin(state_.current());
  copy_.wait_before_write();  // the next version is written elsewhere
  publish(state_, 2, 2);
  CheckpointMemory snapshot;
  const auto content = copy(snapshot);
  ASSERT_FALSE(content.weights.tensors.empty());
  float first = 0;
  std::memcpy(&first, content.weights.tensors.front().bytes.data(), sizeof first);
  EXPECT_EQ(first, 1);
  copy_.wait_before_write();
}

TEST_F(CheckpointCopyTest, TheStepAfterTheNextOneWaitsForTheCopy) {
  auto copy = copy_.begin(state_.current());
  publish(state_, 2, 2);
  std::atomic<bool> copy_has_begun{false};
  std::thread writer([&, step = ::gettid()] {
    EXPECT_TRUE(eventually([&] { return is_asleep(step); }, 20s));
    copy_has_begun = true;
    CheckpointMemory snapshot;
    copy(snapshot);
  });
  copy_.wait_before_write();
  EXPECT_TRUE(copy_has_begun);
  EXPECT_GT(copy_.waited_seconds(), 0);
  writer.join();
}

TEST_F(CheckpointCopyTest, NoStepWaitsForACopyThatIsNeverMade) {
  auto copy = copy_.begin(state_.current());
  publish(state_, 2, 2);
  copy = {};
  copy_.wait_before_write();
  EXPECT_LT(copy_.waited_seconds(), 10);
}

}  // namespace
}  // namespace lockstep::train
