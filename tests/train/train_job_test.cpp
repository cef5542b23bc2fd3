#include "lockstep/train/train_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;

/// Records the announced epochs and the numbers of the evaluations.
class EpochRecorder final : public events::TrainSink {
 public:
  using Announced = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

  void on(const events::Preparing& /*event*/) override {}
  void on(const events::EpochBegan& event) override {
    announced.emplace_back(event.epoch, event.epochs, event.evaluations);
  }
  void on(const events::IterationDone& /*event*/) override {}
  void on(const events::EpochDone& /*event*/) override {}
  void on(const events::EvaluationBegan& /*event*/) override {}
  void on(const events::EvaluationAdvanced& /*event*/) override {}
  void on(const events::EvaluationDone& event) override { evaluated.push_back(event.epoch); }
  void on(const events::Notice& /*event*/) override {}

  std::vector<Announced> announced;
  std::vector<std::int64_t> evaluated;
};

EpochRecorder record(std::int64_t epochs, std::int64_t eval_every) {
  TrainRequest request;
  request.model.model = "mlp";
  request.dataset = "synthetic";
  request.set.synthetic = {.size = 16, .classes = 2, .height = 4, .width = 4, .channels = 1};
  request.augment = data::Augment::None;
  request.batch_size = 8;
  request.threads_per_device = 1;
  request.device = DeviceKind::Cpu;
  request.epochs = epochs;
  request.eval_every = eval_every;
  EpochRecorder recorder;
  run_training(request, recorder);
  return recorder;
}

/// The expected end of a run is computed from these numbers.
TEST(TrainJobTest, AnnouncesTheEpochsAndEvaluationsThatAreLeft) {
  const auto run = record(5, 2);
  EXPECT_THAT(run.evaluated, ElementsAre(2, 4, 5));
  EXPECT_THAT(run.announced,
              ElementsAre(EpochRecorder::Announced(1, 5, 3), EpochRecorder::Announced(2, 5, 3),
                          EpochRecorder::Announced(3, 5, 2), EpochRecorder::Announced(4, 5, 2),
                          EpochRecorder::Announced(5, 5, 1)));
}

TEST(TrainJobTest, AnnouncesTheOnlyEvaluationAtTheEnd) {
  const auto run = record(2, 0);
  EXPECT_THAT(run.evaluated, ElementsAre(2));
  EXPECT_THAT(run.announced,
              ElementsAre(EpochRecorder::Announced(1, 2, 1), EpochRecorder::Announced(2, 2, 1)));
}

}  // namespace
}  // namespace lockstep::train
