#include "lockstep/train/jobs/train_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;

/// Records the announced epochs and the numbers of the evaluations.
class EpochRecorder final : public Callback {
 public:
  using Announced = std::tuple<int, int, int>;

  void on_fit_begin(const FitShape& shape) override { shape_ = shape; }
  void on_epoch_begin(int epoch, std::int64_t /*iterations*/) override {
    announced.emplace_back(epoch, shape_.epochs, shape_.validations_from(epoch));
  }
  void on_validated(int epoch, const StepResult& /*result*/) override {
    evaluated.push_back(epoch);
  }

  std::vector<Announced> announced;
  std::vector<int> evaluated;

 private:
  FitShape shape_;
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
  run_training(request, {&recorder});
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
