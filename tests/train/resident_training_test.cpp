#include "lockstep/train/backends/gpu/resident_training.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lockstep/data/sets/synthetic.h"
#include "tests/train/jobs.h"

namespace lockstep::train {
namespace {

using lockstep::testing::alone;
using ::testing::ElementsAre;

constexpr std::int64_t kParameters = 2;

/// Records the calls of a GPU, and returns the results that a test sets.
class FakeGpu final : public GpuTraining {
 public:
  std::vector<std::string> heard;
  std::vector<bool> skips;  ///< what the next launches find, step by step
  std::vector<std::byte> state;
  bool has_arrived = false;

  void upload(const std::byte*, const float*) override {}
  void refresh(const std::byte*) override {}
  void begin_download(std::byte* to) override {
    std::memcpy(to, state.data(), state.size());
    has_arrived = false;
  }
  bool is_downloaded() const override { return has_arrived; }
  void wait_for_download() override { has_arrived = true; }
  void set_loss_scale(double, std::int64_t) override {}
  void prepare(GpuWork) override {}
  void take(std::int64_t step, data::Batch batch) override {
    const auto& place = batch.place();
    heard.push_back(fmt::format("take {}: e{} s{} r{} g{}", step, place.epoch, place.step,
                                place.replica, place.micro_batch));
  }
  void release() override { heard.emplace_back("release"); }
  void launch(const GpuLaunch& launch) override {
    launched_ = launch.lr_factors.size();
    heard.push_back(fmt::format("launch {} from {}, updates {}", launched_, launch.first_step,
                                launch.counts[0]));
  }
  std::vector<GpuStepResult> wait() override {
    heard.emplace_back("wait");
    std::vector<GpuStepResult> records(launched_, {.losses = losses_, .metrics = {}});
    for (std::size_t i = 0; i < skips.size(); ++i) records[i].is_skipped = skips[i];
    skips.clear();
    return records;
  }
  void compute_leaves(std::int64_t) override {}
  void reduce(std::int64_t) override {}
  void measure_gradients(std::int64_t) override {}
  void decide(std::int64_t) override {}
  void measure_trust(std::int64_t) override {}
  void update(std::int64_t) override {}
  void commit(std::int64_t) override {}
  GpuStepResult make_leaf(int, std::int64_t, std::span<float>, std::span<float>) override {
    return {};
  }
  void copy_integers(std::byte*) override {}
  std::span<const float> has_gradient() const override { return has_gradient_; }
  void begin_evaluation(const GpuSamples&, WeightsKind) override {}
  ReplicaResult evaluate(const Fields&, const std::string&) override { return {}; }
  at::Tensor predict(const at::Tensor& input) override { return input; }
  void end_evaluation() override {}

  /// What was heard since the last time.
  std::vector<std::string> news() { return std::exchange(heard, {}); }

 private:
  std::size_t launched_ = 0;
  std::array<float, kParameters> has_gradient_{1, 0};
  std::array<float, 1> losses_{0.5F};
};

WeightLayout layout_of_two_numbers() {
  WeightLayout layout;
  layout.parameters.resize(kParameters);
  layout.num_parameters = kParameters;
  layout.num_elements = kParameters;
  return layout;
}

struct SpanList final : events::SpanSink {
  void on(const events::Span& span) noexcept override { all.push_back(span); }
  std::vector<events::Span> all;
};

class ResidentTrainingTest : public ::testing::Test {
 protected:
  ResidentTrainingTest() { training_.continue_from({}, shape_.counts(before_.data())); }

  std::vector<ResidentTraining::Step> run(std::int64_t epoch, std::int64_t number,
                                          std::int64_t first) {
    return training_.run({.iteration = {&loader_, epoch, number},
                          .first = first,
                          .steps_before = steps_before_,
                          .lr_factor = [](std::int64_t) { return 1.0; },
                          .spans = &spans_});
  }

  std::int64_t steps_before_ = 0;

  SpanList spans_;
  FakeGpu gpu_;
  Options options_ = alone().device_iterations(3).steps_at_once(2);
  WeightLayout layout_ = layout_of_two_numbers();
  StateShape shape_{layout_, 1, false};
  LeafTotals totals_{layout_, 1, 0};
  std::vector<std::byte> before_ = std::vector<std::byte>(shape_.bytes());
  /// Six steps in an epoch, in two iterations.
  DataLoader loader_{options_,
                     data::synthetic({.size = 6, .height = 2, .width = 2}),
                     {.batch_size = 1, .workers = 0}};
  ResidentTraining training_{gpu_, options_, totals_};
};

TEST_F(ResidentTrainingTest, TellsOfEachLaunch) {
  run(0, 0, 0);
  steps_before_ = 2;
  run(0, 0, 2);
  std::vector<std::int64_t> steps;
  for (const auto& span : spans_.all) {
    if (span.kind == events::SpanKind::Launch) steps.push_back(span.step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 3}));
}

TEST_F(ResidentTrainingTest, LoadsTheNextLaunchWhileOneRuns) {
  EXPECT_EQ(run(0, 0, 0).size(), 2);
  EXPECT_THAT(gpu_.news(),
              ElementsAre("release", "take 0: e0 s0 r0 g0", "take 1: e0 s1 r0 g0",
                          "launch 2 from 0, updates 0", "release", "take 0: e0 s2 r0 g0", "wait"));
}

TEST_F(ResidentTrainingTest, EndsAnIterationAndAnEpochWhereTheyEnd) {
  run(0, 0, 0);
  gpu_.news();
  steps_before_ = 2;
  EXPECT_EQ(run(0, 0, 2).size(), 1);
  EXPECT_THAT(gpu_.news(), ElementsAre("launch 1 from 2, updates 2", "release",
                                       "take 0: e0 s3 r0 g0", "take 1: e0 s4 r0 g0", "wait"));
  run(0, 1, 0);
  gpu_.news();
  run(0, 1, 2);
  EXPECT_THAT(gpu_.news(), ElementsAre("launch 1 from 2, updates 5", "release",
                                       "take 0: e1 s0 r0 g0", "take 1: e1 s1 r0 g0", "wait"));
}

TEST_F(ResidentTrainingTest, LoadsAnewWhereItIsSentElsewhere) {
  run(0, 0, 0);
  gpu_.news();
  run(4, 1, 2);
  EXPECT_THAT(gpu_.news(),
              ElementsAre("release", "take 0: e4 s5 r0 g0", "launch 1 from 0, updates 2", "release",
                          "take 0: e5 s0 r0 g0", "take 1: e5 s1 r0 g0", "wait"));
}

TEST_F(ResidentTrainingTest, CountsUpdatesOfWhatLearns) {
  gpu_.skips = {true, false};
  const auto steps = run(0, 0, 0);
  EXPECT_TRUE(steps[0].is_skipped);
  EXPECT_FALSE(steps[1].is_skipped);
  EXPECT_THAT(totals_.losses(std::span(steps[1].totals)), ElementsAre(0.5F));
  EXPECT_THAT(totals_.changed(std::span(steps[1].totals)), ElementsAre(1, 0));
  gpu_.news();
  run(0, 0, 2);
  EXPECT_EQ(gpu_.news().front(), "launch 1 from 0, updates 1");
}

class GpuSnapshotsTest : public ResidentTrainingTest {
 protected:
  GpuSnapshotsTest() {
    state_.publish([&](std::byte* state, float*) { std::memset(state, 0, shape_.bytes()); });
    gpu_.state.assign(shape_.bytes(), std::byte{0});
  }

  void set_weight(float weight) { std::memcpy(gpu_.state.data(), &weight, sizeof weight); }
  float kept_weight() const { return shape_.weights(state_.current())[0]; }
  std::int64_t kept_steps() const { return state_.progress().steps; }

  SharedState state_{options_.world().communicator(), layout_, {.num_states = 1}, 0};
  GpuSnapshots snapshots_{gpu_, options_.world().communicator(), state_};
};

TEST_F(GpuSnapshotsTest, AreKeptWhenTheyAreThere) {
  set_weight(7);
  snapshots_.begin({.steps = 12});
  EXPECT_TRUE(snapshots_.is_under_way());
  snapshots_.commit_arrived();
  EXPECT_EQ(kept_weight(), 0) << "it is still on its way";
  gpu_.has_arrived = true;
  snapshots_.commit_arrived();
  EXPECT_EQ(kept_weight(), 7);
  EXPECT_EQ(kept_steps(), 12);
  EXPECT_FALSE(snapshots_.is_under_way());
}

TEST_F(GpuSnapshotsTest, AreWaitedForOnRequest) {
  set_weight(3);
  snapshots_.begin({.steps = 5});
  snapshots_.finish();
  snapshots_.finish();
  EXPECT_EQ(kept_weight(), 3);
  set_weight(4);
  snapshots_.begin({.steps = 6});
  EXPECT_EQ(kept_weight(), 3) << "the one before stays whole until the next is there";
  EXPECT_EQ(kept_steps(), 5);
  snapshots_.finish();
  EXPECT_EQ(kept_weight(), 4);
  EXPECT_EQ(state_.version(), 3);
}

}  // namespace
}  // namespace lockstep::train
