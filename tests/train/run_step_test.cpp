#include "lockstep/train/engine/run_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

/// Records the operations, and fails in one of them.
class RecordingBackend final : public StepBackend {
 public:
  explicit RecordingBackend(std::string failing = "") : failing_(std::move(failing)) {}

  void compute_leaves(std::int64_t index) override { add("leaves", index); }
  void reduce(std::int64_t index) override { add("reduce", index); }
  void check(std::int64_t index) override { add("check", index); }
  void measure_gradients(std::int64_t index) override { add("measure", index); }
  void decide(std::int64_t index) override { add("decide", index); }
  void measure_trust(std::int64_t index) override { add("trust", index); }
  void update(std::int64_t index) override { add("update", index); }
  void commit(std::int64_t index) override { add("commit", index); }
  void report(std::int64_t index) override { add("report", index); }

  std::string operations;

 private:
  void add(const std::string& name, std::int64_t index) {
    operations += fmt::format("{}:{} ", name, index);
    if (name == failing_) throw Error(ErrorKind::Diverged, name);
  }

  std::string failing_;
};

TEST(RunStepTest, CallsTheOperationsInOrder) {
  RecordingBackend backend;
  run_step(backend, {}, 0);
  EXPECT_EQ(backend.operations, "leaves:0 reduce:0 check:0 decide:0 update:0 commit:0 report:0 ");
}

TEST(RunStepTest, MeasuresBeforeTheFirstUpdateIfTheRulesNeedIt) {
  RecordingBackend clipping;
  run_step(clipping, {.clip_norm = 1}, 2);
  EXPECT_EQ(clipping.operations,
            "leaves:2 reduce:2 check:2 measure:2 decide:2 update:2 commit:2 report:2 ");
  RecordingBackend lamb;
  run_step(lamb, {.has_trust_ratios = true}, 0);
  EXPECT_EQ(lamb.operations,
            "leaves:0 reduce:0 check:0 decide:0 trust:0 update:0 commit:0 report:0 ");
  RecordingBackend both;
  run_step(both, {.has_loss_scaling = true, .has_trust_ratios = true}, 0);
  EXPECT_EQ(both.operations,
            "leaves:0 reduce:0 check:0 measure:0 decide:0 trust:0 update:0 commit:0 report:0 ");
}

TEST(RunStepTest, CommitsNothingIfAStepIsRefused) {
  RecordingBackend backend("check");
  EXPECT_THROW(run_step(backend, {}, 0), Error);
  EXPECT_EQ(backend.operations, "leaves:0 reduce:0 check:0 ");
}

}  // namespace
}  // namespace lockstep::train
