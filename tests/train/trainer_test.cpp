#include "lockstep/train/api/trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <mutex>

#include "lockstep/base/file.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::expect_error;
using testing::expect_same_bits;
using testing::regression;
using testing::regression_task;
using testing::RestartedJob;
using testing::run_job;
using testing::small_net;

constexpr int kEpochs = 4;
constexpr int kTrainerReplicas = 2;

DataLoader train_loader(const Options& options) {
  return {options, regression(48, 6, 3).set(), {.batch_size = 4, .shuffle = true}};
}

EvaluationLoader test_loader(const Options& options) {
  return {options, regression(30, 6, 3).set(), {.batch_size = 7}};
}

Trainer trainer_of(const Options& options, double lr = 0.05) {
  return {small_net(), options, SGD({.lr = lr, .momentum = 0.9}), regression_task()};
}

std::vector<double> validation_losses(const History& history) {
  std::vector<double> losses;
  for (const auto& epoch : history.epochs) losses.push_back(value_of(epoch, "loss"));
  return losses;
}

/// The loop that a trainer saves its user.
std::string digest_of_loop(const Options& options) {
  auto loader = train_loader(options);
  TrainingModel model(small_net(), options, SGD({.lr = 0.05, .momentum = 0.9}), regression_task());
  for ([[maybe_unused]] const int epoch : model.epochs(kEpochs)) {
    for (auto& iteration : loader) model.step(iteration);
  }
  return model.digest();
}

TEST(TrainerTest, FitsToTheBitsOfTheLoopOnAnyNumberOfInstances) {
  std::string expected;
  run_job(1, kTrainerReplicas, [&](const Options& options) { expected = digest_of_loop(options); });
  for (const int instances : {1, 2}) {
    run_job(instances, kTrainerReplicas, [&](const Options& options) {
      auto loader = train_loader(options);
      auto test = test_loader(options);
      auto trainer = trainer_of(options);
      const auto history = trainer.fit(loader, {.epochs = kEpochs, .validation = &test});
      EXPECT_EQ(trainer.model().digest(), expected) << instances;
      ASSERT_EQ(history.epochs.size(), 4U);
      EXPECT_EQ(history.epochs.back().epoch, kEpochs);
      EXPECT_FALSE(history.stopped_early);
      EXPECT_LT(history.epochs.back().training.loss, history.epochs.front().training.loss);
      EXPECT_EQ(history.epochs.back().validation->loss, trainer.evaluate(test).loss);
    });
  }
}

TEST(TrainerTest, FitsAgainForAsManyEpochsMore) {
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto trainer = trainer_of(options);
  EXPECT_EQ(trainer.fit(loader, {.epochs = 3}).epochs.size(), 3U);
  EXPECT_EQ(trainer.fit(loader).epochs.size(), 1U);
  EXPECT_TRUE(trainer.fit(loader, {.epochs = 0}).epochs.empty());
  EXPECT_EQ(trainer.model().digest(), digest_of_loop(alone(kTrainerReplicas)));
}

TEST(TrainerTest, TakesWhateverATrainingModelTakes) {
  const auto digest = [](auto module) {
    const auto options = alone(kTrainerReplicas).seed(7);
    auto loader = train_loader(options);
    Trainer trainer(std::move(module), options, SGD({.lr = 0.05}), regression_task());
    trainer.fit(loader);
    return trainer.model().digest();
  };
  const auto expected = digest(small_net());
  EXPECT_EQ(digest([] { return std::make_shared<testing::SmallNetImpl>(6, 8, 3); }), expected);
  EXPECT_EQ(digest(nn::model_of(small_net())), expected);
}

TEST(TrainerTest, PredictsWithTheTrainedWeights) {
  const auto options = alone();
  auto loader = train_loader(options);
  const auto module = small_net();
  const auto x = regression(48, 6, 3).x;
  at::Tensor predicted;
  {
    Trainer trainer(module, options, SGD({.lr = 0.05}), regression_task());
    const auto before = trainer.predict(x).clone();
    trainer.fit(loader);
    predicted = trainer.predict(x).clone();
    EXPECT_FALSE(before.equal(predicted));
  }
  testing::expect_close(predicted, module->forward(x), 1e-5);
}

TEST(TrainerTest, StopsWhereAMetricGetsNoBetter) {
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto test = test_loader(options);
  auto trainer = trainer_of(options, 1e-9);  // which learns next to nothing
  trainer.add(callbacks::early_stop({.patience = 2, .min_delta = 0.01}));
  const auto history = trainer.fit(loader, {.epochs = 20, .validation = &test});
  EXPECT_TRUE(history.stopped_early);
  EXPECT_EQ(history.epochs.size(), 4U) << "the first is the best, and three more are no better";
  EXPECT_EQ(trainer.model().steps(), 4 * loader.steps_per_epoch());
}

/// The history of a metric "m" that has these values in turn.
History history_of(const std::vector<double>& values) {
  History history;
  for (const auto value : values) {
    EpochResult result{.epoch = static_cast<int>(history.epochs.size()) + 1, .training = {}};
    result.training.metrics = {{"m", value}};
    history.epochs.push_back(result);
  }
  return history;
}

TEST(TrainerTest, CountsEpochsSinceTheBest) {
  const auto stop = callbacks::early_stop({.metric = "m", .goal = Goal::Greatest, .patience = 1});
  EXPECT_TRUE(stop->goes_on(history_of({1})));
  EXPECT_TRUE(stop->goes_on(history_of({1, 0})));
  EXPECT_FALSE(stop->goes_on(history_of({1, 0, 1}))) << "as good is no better";
  EXPECT_TRUE(stop->goes_on(history_of({1, 0, 2})));
  EXPECT_TRUE(stop->goes_on(history_of({1, 0, 2, 1})));
  EXPECT_FALSE(stop->goes_on(history_of({1, 0, 2, 1, 1.5})));
  const auto least = callbacks::early_stop({.metric = "m", .min_delta = 0.5});
  EXPECT_TRUE(least->goes_on(history_of({3, 2})));
  EXPECT_FALSE(least->goes_on(history_of({3, 2, 1.6})));
  expect_error([&] { least->goes_on(History{{{.epoch = 1, .training = {}}}}); }, ErrorKind::Options,
               "expected one of the metrics loss, found 'm'");
}

TEST(TrainerTest, EarlyStopIgnoresEpochsWithoutAValidationIfTheTrainingValidates) {
  auto history = history_of({1, 9, 9, 2});
  for (auto* epoch : {&history.epochs[0], &history.epochs[3]}) {
    epoch->validation = epoch->training;
    epoch->validation->metrics = {{"m", 5}};
  }
  const auto stop = callbacks::early_stop({.metric = "m"});
  EXPECT_FALSE(stop->goes_on(history)) << "without a validation set, the training counts";
  stop->on_fit_begin({.epochs = 8, .validations = 3});
  EXPECT_FALSE(stop->goes_on(history)) << "5 is not better than 5";
  history.epochs[3].validation->metrics = {{"m", 4}};
  EXPECT_TRUE(stop->goes_on(history));
}

TEST(TrainerTest, ValidatesEveryFewEpochsAndAfterTheLast) {
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto test = test_loader(options);
  auto trainer = trainer_of(options);
  const auto history = trainer.fit(loader, {.epochs = 5, .validation = &test, .validate_every = 2});
  std::vector<int> validated;
  for (const auto& epoch : history.epochs) {
    if (epoch.validation) validated.push_back(epoch.epoch);
  }
  EXPECT_THAT(validated, ElementsAre(2, 4, 5));
}

TEST(TrainerTest, ValidatesAFinishedRunAgainWithTheValidationSetOfThisRun) {
  const testing::ScratchFolder folder;
  const auto fit = [&](bool validates) {
    auto options = alone(kTrainerReplicas);
    options.checkpoints({.folder = folder.path() + "/run"}).resume("auto");
    auto loader = train_loader(options);
    auto test = test_loader(options);
    auto trainer = trainer_of(options);
    trainer.model().tell([](const std::string&) {});
    auto history = trainer.fit(loader, {.epochs = 2, .validation = validates ? &test : nullptr});
    trainer.model().checkpoint();
    const auto loss = trainer.evaluate(test).loss;
    return std::pair(history, loss);
  };
  EXPECT_FALSE(fit(false).first.epochs.back().validation);
  const auto [history, loss] = fit(true);
  ASSERT_EQ(history.epochs.size(), 2U) << "no epoch occurs twice";
  ASSERT_TRUE(history.epochs.back().validation);
  EXPECT_EQ(history.epochs.back().validation->loss, loss);
}

TEST(TrainerTest, ALearningRateFollowsItsSchedule) {
  const auto digest = [](bool by_callback) {
    auto options = alone(kTrainerReplicas);
    const Schedule schedule{.kind = ScheduleKind::Linear};
    if (!by_callback) options.schedule(schedule, kEpochs);
    auto loader = train_loader(options);
    auto trainer = trainer_of(options);
    if (by_callback) trainer.add(callbacks::learning_rate(schedule, kEpochs));
    trainer.fit(loader, {.epochs = kEpochs});
    return trainer.model().digest();
  };
  EXPECT_EQ(digest(true), digest(false));
  EXPECT_NE(digest(true), digest_of_loop(alone(kTrainerReplicas)));
}

TEST(TrainerTest, GoesOnFromACheckpointWithTheSameBits) {
  const testing::ScratchFolder folder;
  const auto expected = digest_of_loop(alone(kTrainerReplicas));
  const auto fit = [&](int epochs) {
    const auto options = alone(kTrainerReplicas);
    auto loader = train_loader(options);
    auto trainer = trainer_of(options);
    trainer.add(callbacks::checkpoint({.folder = folder.path() + "/run", .every = "1 epoch"}));
    trainer.model().tell([](const std::string&) {});
    const auto history = trainer.fit(loader, {.epochs = epochs});
    trainer.model().checkpoint();
    return std::pair(trainer.model().digest(), history.epochs.size());
  };
  EXPECT_EQ(fit(2).second, 2U);
  const auto [digest, epochs] = fit(kEpochs);
  EXPECT_EQ(digest, expected);
  EXPECT_EQ(epochs, static_cast<std::size_t>(kEpochs)) << "the checkpoint knows of the two before";
}

/// Remembers what it was told, and throws where it is asked to.
class Recorder : public Callback {
 public:
  explicit Recorder(int crash_in_epoch = 0) : crash_in_epoch_(crash_in_epoch) {}
  void on_epoch_begin(int epoch, std::int64_t iterations) override {
    heard.push_back(fmt::format("epoch {} of {}", epoch, iterations));
  }
  void on_iteration(int epoch, std::int64_t iteration, const IterationResult& /*result*/) override {
    if (epoch == crash_in_epoch_ && iteration == 2) throw Error(ErrorKind::Bug, "crashed");
    last_iteration = iteration;
  }
  void on_epoch_trained(int epoch, const StepResult& /*result*/) override {
    heard.push_back(fmt::format("trained {} in {}", epoch, last_iteration));
  }
  void on_validation_begin(int epoch, std::int64_t local_batches) override {
    heard.push_back(fmt::format("validating {}", local_batches));
    validated.push_back(epoch);
  }
  void on_validated(int epoch, const StepResult& /*result*/) override {
    heard.push_back(fmt::format("validated {}", epoch));
  }
  bool goes_on(const History& history) override {
    heard.push_back(fmt::format("history of {}", history.epochs.size()));
    return true;
  }

  std::vector<std::string> heard;
  std::vector<int> validated;
  std::int64_t last_iteration = 0;

 private:
  int crash_in_epoch_;
};

TEST(TrainerTest, TellsCallbacksWhatHappens) {
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto test = test_loader(options);
  auto trainer = trainer_of(options);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add(recorder);
  trainer.fit(loader, {.epochs = 1, .validation = &test});
  EXPECT_THAT(recorder->heard, ElementsAre("epoch 1 of 6", "trained 1 in 6", "validating 5",
                                           "validated 1", "history of 1"));
}

/// A fit that stops early, and what it came to, on instance 0.
struct Fitted {
  std::vector<double> losses;
  std::string digest;
  std::vector<int> validated;
  std::vector<std::string> heard{};
};

Fitted fit_with_early_stop(const Options& options, int crash_in_epoch) {
  auto loader = train_loader(options);
  auto test = test_loader(options);
  auto trainer = trainer_of(options, 0.4);  // which overshoots after a while
  const auto recorder = std::make_shared<Recorder>(crash_in_epoch);
  trainer.add(callbacks::early_stop({.patience = 1})).add(recorder);
  trainer.model().tell([](const std::string&) {});
  const auto history = trainer.fit(loader, {.epochs = 30, .validation = &test});
  EXPECT_TRUE(history.stopped_early);
  return {validation_losses(history), trainer.model().digest(), recorder->validated};
}

TEST(TrainerTest, AJobThatCrashedDecidesAsOneThatDidNot) {
  Fitted expected;
  run_job(1, kTrainerReplicas,
          [&](const Options& options) { expected = fit_with_early_stop(options, 0); });
  const auto epochs = static_cast<int>(expected.losses.size());
  ASSERT_GE(epochs, 3) << "what an earlier attempt found has to count";
  RestartedJob job;
  for (const int crash_in : {2, epochs}) {
    job.failed_attempt(ErrorKind::Bug, 2, kTrainerReplicas,
                       [&](const Options& options) { fit_with_early_stop(options, crash_in); });
  }
  job.attempt(1, kTrainerReplicas, [&](const Options& options) {
    const auto found = fit_with_early_stop(options, 0);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.digest, expected.digest);
    EXPECT_THAT(found.validated, ElementsAre(epochs)) << "the others were known";
  });
}

TEST(TrainerTest, AJobThatGoesOnFromACheckpointDecidesAsOneThatMadeAll) {
  const auto expected = fit_with_early_stop(alone(kTrainerReplicas), 0);
  const auto epochs = static_cast<int>(expected.losses.size());
  const testing::ScratchFolder folder;
  const auto with_checkpoints = [&] {
    auto options = alone(kTrainerReplicas);
    options.checkpoints({.folder = folder.path() + "/run", .every = "1 epoch"}).resume("auto");
    return options;
  };
  for (const int crash_in : {3, epochs}) {
    EXPECT_THROW(fit_with_early_stop(with_checkpoints(), crash_in), Error);
  }
  const auto found = fit_with_early_stop(with_checkpoints(), 0);
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.digest, expected.digest);
  EXPECT_THAT(found.validated, ElementsAre(epochs)) << "the others were known";
}

constexpr int kBetweenFits = -1;

/// Fits for two epochs, and then for three.
Fitted two_fits(const Options& options, int crash_in_epoch) {
  auto loader = train_loader(options);
  auto test = test_loader(options);
  auto trainer = trainer_of(options);
  const auto recorder = std::make_shared<Recorder>(crash_in_epoch);
  trainer.add(recorder);
  trainer.model().tell([](const std::string&) {});
  auto losses = validation_losses(trainer.fit(loader, {.epochs = 2, .validation = &test}));
  if (crash_in_epoch == kBetweenFits) throw Error(ErrorKind::Bug, "crashed");
  for (const auto loss :
       validation_losses(trainer.fit(loader, {.epochs = 3, .validation = &test}))) {
    losses.push_back(loss);
  }
  return Fitted{losses, trainer.model().digest(), recorder->validated, recorder->heard};
}

TEST(TrainerTest, AJobThatCrashedBetweenTwoFitsTellsOfTheSecondAsAWhole) {
  RestartedJob job;
  job.failed_attempt(ErrorKind::Bug, 1, kTrainerReplicas,
                     [](const Options& options) { two_fits(options, kBetweenFits); });
  job.attempt(1, kTrainerReplicas, [](const Options& options) {
    EXPECT_EQ(two_fits(options, 0).heard.front(), "epoch 1 of 6");
  });
}

TEST(TrainerTest, ASecondFitIsWalkedToAgain) {
  Fitted expected;
  run_job(1, kTrainerReplicas, [&](const Options& options) { expected = two_fits(options, 0); });
  RestartedJob job;
  job.failed_attempt(ErrorKind::Bug, 2, kTrainerReplicas,
                     [&](const Options& options) { two_fits(options, 3); });
  job.attempt(2, kTrainerReplicas, [&](const Options& options) {
    const auto found = two_fits(options, 0);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.digest, expected.digest);
    EXPECT_THAT(found.validated, ElementsAre(3)) << "the others were known";
  });
}

/// Writes a word for each call. Only instance 0 calls it.
class WordCallback : public Callback {
 public:
  CalledOn called_on() const noexcept override { return CalledOn::FirstInstance; }
  void on_preparing(const events::Preparing& step) override {
    if (step.done == step.total) words += "prepared ";
  }
  void on_compiled(TrainingModel& model) override {
    words += fmt::format("compiled:{} ", model.replicas());
  }
  void on_fit_begin(const FitShape& shape) override {
    words += fmt::format("fit:{}/{} ", shape.epochs, shape.validations);
  }
  void on_epoch_begin(int epoch, std::int64_t iterations) override {
    words += fmt::format("began:{}/{} ", epoch, iterations);
  }
  void on_step(std::int64_t step, const StepResult&, TrainingModel&) override {
    words += fmt::format("step:{} ", step);
  }
  void on_iteration(int, std::int64_t iteration, const IterationResult&) override {
    words += fmt::format("done:{} ", iteration);
  }
  void on_epoch_trained(int epoch, const StepResult&) override {
    words += fmt::format("epoch:{} ", epoch);
  }
  void on_validation_begin(int, std::int64_t local_batches) override {
    words += fmt::format("test:{} ", local_batches);
  }
  void on_validation_batch(std::int64_t) override { words += "."; }
  void on_validated(int epoch, const StepResult&) override {
    words += fmt::format(" tested:{} ", epoch);
  }
  bool on_notice(const std::string& text) override {
    words += fmt::format("notice:{} ", text);
    return true;
  }
  void on_fit_end(const History& history, TrainingModel&) override {
    words += fmt::format("end:{}", history.epochs.size());
  }

  std::string words;
};

TEST(TrainerTest, CallsAnObserverOnInstance0InOrder) {
  run_job(2, kTrainerReplicas, [](const Options& options) {
    WordCallback observer;
    auto loader = train_loader(options);
    auto test = test_loader(options);
    auto trainer = trainer_of(options);
    trainer.add(callbacks::log(observer));
    trainer.fit(loader, {.validation = &test});
    EXPECT_EQ(
        observer.words,
        options.world().instance() == 0
            ? "compiled:2 prepared fit:1/1 began:1/6 step:1 done:1 step:2 done:2 step:3 done:3 "
              "step:4 done:4 step:5 done:5 step:6 done:6 epoch:1 test:3 ... tested:1 end:1"
            : "");
  });
}

TEST(TrainerTest, WritesCurvesForTensorBoardOnInstance0) {
  const testing::ScratchFolder folder;
  const auto files = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      found.push_back(entry.path());
    }
    return found;
  };
  run_job(2, kTrainerReplicas, [&](const Options& options) {
    auto loader = train_loader(options);
    auto test = test_loader(options);
    auto trainer = trainer_of(options);
    trainer.add(callbacks::tensorboard(folder.path()));
    trainer.fit(loader, {.validation = &test});
  });
  ASSERT_EQ(files().size(), 1U);
  const auto text = read_file(files().front().string());
  for (const auto* curve : {"train/loss", "epoch/loss", "test/loss"}) {
    EXPECT_NE(text.find(curve), std::string::npos) << curve;
  }
}

TEST(TrainerTest, ACallbackThatCannotWriteItsCurvesSaysSo) {
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto trainer = trainer_of(options);
  trainer.add(callbacks::tensorboard("/proc/curves"));
  expect_error([&] { trainer.fit(loader); }, ErrorKind::Io, "/proc/curves");
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(TrainerTest, WritesAReportOnInstance0) {
  const testing::ScratchFolder folder;
  const auto file = folder.path() + "/report.html";
  run_job(2, kTrainerReplicas, [&](const Options& options) {
    auto loader = train_loader(options);
    auto test = test_loader(options);
    auto trainer = trainer_of(options);
    trainer.add(callbacks::report({.file = file, .title = "A <small> net"}));
    trainer.fit(loader, {.epochs = 2, .validation = &test});
    trainer.fit(loader, {.epochs = 1, .validation = &test});
    const auto digest = trainer.model().digest();
    if (options.world().instance() != 0) return;
    const auto page = read_file(file);
    for (const auto& part :
         {std::string("<title>A &lt;small&gt; net</title>"), std::string("The run finished."),
          digest, std::string("validation loss"), std::string("instance 0"),
          std::string("<section id=\"environment\">"), std::string("<section id=\"command\">")}) {
      EXPECT_NE(page.find(part), std::string::npos) << part;
    }
    // Loss of training and validation, and throughput.
    EXPECT_EQ(count(page, "<g class=\"curve "), 3U);
    // Three epochs of 6 iterations, three validations, and the throughput.
    EXPECT_EQ(count(page, "<circle "), 18U + 3U + 18U);
  });
}

TEST(TrainerTest, WritesAReportOfAFitThatFailed) {
  const testing::ScratchFolder folder;
  const auto file = folder.path() + "/report.html";
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto trainer = trainer_of(options);
  trainer.add(callbacks::report({.file = file}));
  trainer.add(std::make_shared<Recorder>(2));
  expect_error([&] { trainer.fit(loader, {.epochs = 3}); }, ErrorKind::Bug, "crashed");
  const auto page = read_file(file);
  EXPECT_NE(page.find("The run failed."), std::string::npos);
  EXPECT_NE(page.find("crashed (exit code "), std::string::npos);
  EXPECT_EQ(page.find("digest of the weights"), std::string::npos);
}

TEST(TrainerTest, RefusesAReportThatCannotBeWrittenBeforeItTrains) {
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto trainer = trainer_of(options);
  trainer.add(callbacks::report({.file = "/no/such/report.html"}));
  expect_error([&] { trainer.fit(loader); }, ErrorKind::Io,
               "callbacks::report /no/such/report.html: expected '/no/such' to be a folder, found "
               "none\nmkdir -p /no/such");
}

TEST(TrainerTest, RefusesWhatCannotBeMeant) {
  const auto options = alone(kTrainerReplicas);
  auto loader = train_loader(options);
  auto trainer = trainer_of(options);
  expect_error([&] { trainer.fit(loader, {.epochs = -1}); }, ErrorKind::Options,
               "Trainer::fit: expected 0 epochs or more, found -1");
  expect_error([&] { trainer.add(nullptr); }, ErrorKind::Options,
               "expected a callback, found a null pointer");
  expect_error([] { callbacks::early_stop({.patience = -1}); }, ErrorKind::Options,
               "expected a patience and a min_delta of 0 or more, found -1 and 0");
  trainer.model();
  expect_error([&] { trainer.add(callbacks::early_stop()); }, ErrorKind::Options,
               "add all callbacks before the first fit, evaluate, predict or model");
  auto other = trainer_of(options);
  other.add(callbacks::early_stop({.metric = "acc"}));
  expect_error([&] { other.fit(loader); }, ErrorKind::Options,
               "expected one of the metrics loss, found 'acc'");
}

}  // namespace
}  // namespace lockstep
