#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "lockstep/train/recovery/recovery.h"
#include "lockstep/weights/tensor_set.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/train/jobs.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

/// A training without a model.
class FakeTraining final : public Recoverable {
 public:
  const Progress& progress() const override { return now; }
  bool is_recovered() const override { return recovered; }
  void restore(const checkpoint::Checkpoint* from) override {
    now.steps = from->manifest().position.step;
    calls.emplace_back("restore");
  }
  std::int64_t finished_epochs() const override { return epochs; }
  void finish_epoch(std::int64_t epoch) override { epochs = epoch; }
  std::uint64_t loader_print() const override { return print; }
  void keep_loader_print(std::uint64_t value) override { print = value; }
  std::function<checkpoint::Content(CheckpointMemory&)> begin_copy() override {
    calls.emplace_back("copy");
    return [](CheckpointMemory&) { return checkpoint::Content{}; };
  }
  double waited_for_copies() const override { return 0; }
  void request(Request request) override {
    calls.emplace_back(request == Request::Stop ? "stop" : "checkpoint");
  }
  bool take_checkpoint_request() override { return std::exchange(wants_checkpoint, false); }
  void guarded(const std::function<void()>& action) override { action(); }

  Progress now;
  bool recovered = false;
  bool wants_checkpoint = false;
  std::int64_t epochs = 0;
  std::uint64_t print = 0;
  std::vector<std::string> calls;
};

class RecoveryAloneTest : public ::testing::Test {
 protected:
  Options options() const {
    auto options = testing::alone();
    options.checkpoints({.folder = folder_.path() + "/run", .every = "2 steps"});
    return options;
  }
  std::unique_ptr<Recovery> begin(const Options& options) {
    auto recovery = std::make_unique<Recovery>(options);
    recovery->begin(training_, lay_out(options), SGD(), nullptr,
                    [this](const std::string& text) { told_.push_back(text); });
    return recovery;
  }
  DataLoader loader(const Options& options) const {
    return {options, testing::regression(8, 2, 1).set(), {.batch_size = 2}};
  }

  testing::ScratchFolder folder_;
  FakeTraining training_;
  std::vector<std::string> told_;
};

TEST_F(RecoveryAloneTest, TakesACheckpointWhenItIsDue) {
  const auto given = options();
  const auto recovery = begin(given);
  auto loader = this->loader(given);
  recovery->take_loader(loader);
  EXPECT_NE(training_.print, 0U) << "the loader is kept with the state";
  for (training_.now.steps = 1; training_.now.steps <= 2; ++training_.now.steps) {
    recovery->after_step(loader);
  }
  EXPECT_THAT(training_.calls, ElementsAre("copy"));
}

TEST_F(RecoveryAloneTest, PassesSignalsOnAndStopsAfterACheckpoint) {
  const auto given = options();
  const auto recovery = begin(given);
  auto loader = this->loader(given);
  ::raise(SIGTERM);
  recovery->before_step({.loader = &loader}, 0);
  EXPECT_THAT(training_.calls, ElementsAre("stop"));
  training_.now = {.steps = 1, .is_stopped = 1};
  expect_error([&] { recovery->after_step(loader); }, ErrorKind::Stopped,
               "stopped by SIGTERM after step 1; wrote a checkpoint");
}

TEST_F(RecoveryAloneTest, ReportsThePositionOfAStep) {
  const auto given = options();
  const auto recovery = begin(given);
  auto loader = this->loader(given);
  const auto first = recovery->before_step({.loader = &loader, .epoch = 3, .number = 0}, 0);
  EXPECT_TRUE(first.begins_epoch);
  EXPECT_EQ(first.epoch, 3);
  EXPECT_EQ(first.samples, loader.shape().samples_per_step());
  EXPECT_FALSE(recovery->before_step({.loader = &loader, .epoch = 3, .number = 1}, 0).begins_epoch);
}

TEST_F(RecoveryAloneTest, ContinuesWithAStateInMemoryAndReportsIt) {
  training_.recovered = true;
  training_.now.steps = 12;
  training_.print = 1;
  const auto given = options();
  const auto recovery = begin(given);
  EXPECT_EQ(recovery->replay().first_step(), 12);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_THAT(told_.front(), ::testing::HasSubstr("continues after step 12"));
  auto loader = this->loader(given);
  expect_error([&] { recovery->take_loader(loader); }, ErrorKind::Options,
               "the samples or the order of the loader differ");
}

}  // namespace
}  // namespace lockstep::train
