#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/stop_signals.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"
#include "tests/train/jobs.h"

namespace lockstep::testing {
namespace {

constexpr int kReplicas = 3;
constexpr int kEpochs = 3;
constexpr std::int64_t kSamples = 48;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kStepsPerIteration = 2;
constexpr std::int64_t kStepsPerEpoch = kSamples / kBatch / kReplicas;  // 8
constexpr std::int64_t kSteps = kEpochs * kStepsPerEpoch;

/// Everything that a step can change: two kinds of buffers, something random, something frozen.
struct BusyNetImpl : torch::nn::Cloneable<BusyNetImpl> {
  BusyNetImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(6, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    drop = register_module("drop", torch::nn::Dropout(0.3));
    second = register_module("second", torch::nn::Linear(8, 3));
    fixed = register_module("fixed", torch::nn::Linear(3, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    return fixed(second(drop(torch::relu(norm(first(x))))));
  }

  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear second{nullptr};
  torch::nn::Linear fixed{nullptr};
};

std::shared_ptr<BusyNetImpl> busy_net() {
  return nn::make_seeded(7, [] { return std::make_shared<BusyNetImpl>(); });
}

Optimizer optimizer() {
  return AdamW({.lr = 0.02, .weight_decay = 0.1})
      .clip_norm(0.5)
      .average_weights(0.9)
      .group({.names = {"fixed.*"}, .frozen = true});
}

struct Trained {
  std::string weights;
  std::string average;
  double epoch_loss = 0;
  bool operator==(const Trained&) const = default;
};

/// What a training does beside training.
struct Hooks {
  std::function<void(Options&)> options = [](Options&) {};
  std::function<void(const Options&, std::int64_t step)> on_step = [](auto&&...) {};
  std::function<void(const Options&, int epoch)> on_epoch = [](auto&&...) {};
};

Trained train(Options options, const Hooks& hooks = {}) {
  options.seed(5).device_iterations(kStepsPerIteration);
  options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
  hooks.options(options);
  DataLoader loader(options, regression(kSamples, 6, 3).set(),
                    {.batch_size = kBatch, .shuffle = true});
  TrainingModel model(busy_net(), options, optimizer(), regression_task());
  model.tell([](const std::string&) {});
  model.on_step([&](std::int64_t step, const StepResult&) { hooks.on_step(options, step); });
  for (const int epoch : model.epochs(kEpochs)) {
    for (auto& iteration : loader) model.step(iteration);
    hooks.on_epoch(options, epoch);
  }
  return {model.digest(), model.digest(WeightsKind::Average), model.epoch_so_far().loss};
}

Trained undisturbed() {
  static const Trained trained = [] {
    Trained result;
    run_job(1, kReplicas, [&](const Options& options) { result = train(options); });
    return result;
  }();
  return trained;
}

/// The result of instance 0 of an attempt that ends well.
Trained last_attempt(RestartedJob& job, int instances, const Hooks& hooks = {}) {
  Trained result;
  job.attempt(instances, kReplicas, [&](const Options& options) {
    auto trained = train(options, hooks);
    if (options.world().instance() == 0) result = trained;
  });
  return result;
}

Error crash() {
  return {ErrorKind::Bug, "crashed"};
}

/// One instance crashes after a step.
Hooks crash_after(std::int64_t step, int instance) {
  return {.on_step = [=](const Options& options, std::int64_t done) {
    if (done == step && options.world().instance() == instance) throw crash();
  }};
}

TEST(RecoveryTest, ACrashAfterAnyStepEndsWithTheSameBits) {
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    SCOPED_TRACE(step);
    RestartedJob job;
    job.failed_attempt(ErrorKind::Bug, 2, kReplicas, [&](const Options& options) {
      train(options, crash_after(step, static_cast<int>(step % 2)));
    });
    std::atomic<std::int64_t> first_step = 0;
    const Hooks hooks{.on_step = [&](const Options&, std::int64_t done) {
      std::int64_t none = 0;
      first_step.compare_exchange_strong(none, done);
    }};
    EXPECT_EQ(last_attempt(job, 2, hooks), undisturbed());
    // At most the step that was under way is made again, and none twice after it was committed.
    EXPECT_EQ(first_step, step == kSteps ? 0 : step + 1);
  }
}

TEST(RecoveryTest, OtherNumbersOfInstancesGoOnWithIt) {
  RestartedJob job;
  job.failed_attempt(ErrorKind::Bug, 3, kReplicas,
                     [](const Options& options) { train(options, crash_after(5, 2)); });
  job.failed_attempt(ErrorKind::Bug, 1, kReplicas,
                     [](const Options& options) { train(options, crash_after(11, 0)); });
  job.failed_attempt(ErrorKind::Bug, 2, kReplicas,
                     [](const Options& options) { train(options, crash_after(18, 1)); });
  EXPECT_EQ(last_attempt(job, 3), undisturbed());
}

TEST(RecoveryTest, AnEpochIsFinishedWithAllThatFollowsItsSteps) {
  RestartedJob job;
  std::vector<int> epochs;
  const auto note = [&](const Options& options, int epoch) {
    if (options.world().instance() == 0) epochs.push_back(epoch);
  };
  // After the last step of epoch 2, but before what the program does then.
  job.failed_attempt(ErrorKind::Bug, 1, kReplicas, [&](const Options& options) {
    train(options, {.on_epoch = [&](const Options& of, int epoch) {
            if (epoch == 2) throw crash();
            note(of, epoch);
          }});
  });
  // Then in the first step of epoch 3: nothing of epoch 2 is repeated any more.
  job.failed_attempt(ErrorKind::Bug, 1, kReplicas, [&](const Options& options) {
    train(options, {.on_step =
                        [](const Options&, std::int64_t step) {
                          if (step == 2 * kStepsPerEpoch + 1) throw crash();
                        },
                    .on_epoch = note});
  });
  EXPECT_EQ(last_attempt(job, 1, {.on_epoch = note}), undisturbed());
  EXPECT_THAT(epochs, ::testing::ElementsAre(1, 2, 3));
}

TEST(RecoveryTest, AProgramWithLoopsOfItsOwnWalksPastWhatWasDone) {
  const auto own_loops = [](Options options, std::int64_t crash_at, std::vector<bool>& done) {
    options.seed(5).device_iterations(kStepsPerIteration);
    DataLoader loader(options, regression(kSamples, 6, 3).set(),
                      {.batch_size = kBatch, .shuffle = true});
    DataLoader other(options, regression(30, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel model(small_net(), options, SGD({.lr = 0.05, .momentum = 0.9}),
                        regression_task());
    model.tell([](const std::string&) {});
    model.on_step([&](std::int64_t step, const StepResult&) {
      if (step == crash_at) throw crash();
    });
    for (int round = 0; round < 2; ++round) {
      for (auto& iteration : loader) done.push_back(model.step(iteration).done_before);
      for (auto& iteration : other) done.push_back(model.step(iteration).done_before);
    }
    // A second loop over epochs, after one that used another loader.
    for ([[maybe_unused]] const int epoch : model.epochs(2)) {
      for (auto& iteration : other) done.push_back(model.step(iteration).done_before);
    }
    return model.digest();
  };
  std::string expected;
  std::vector<bool> none;
  run_job(1, kReplicas, [&](const Options& options) { expected = own_loops(options, 0, none); });
  EXPECT_THAT(none, ::testing::Each(false));
  for (const std::int64_t crash_at : {3, 8, 13, 20, 27, 31}) {
    SCOPED_TRACE(crash_at);
    RestartedJob job;
    std::vector<bool> ignored;
    job.failed_attempt(ErrorKind::Bug, 1, kReplicas,
                       [&](const Options& options) { own_loops(options, crash_at, ignored); });
    std::string digest;
    std::vector<bool> done;
    job.attempt(1, kReplicas,
                [&](const Options& options) { digest = own_loops(options, 0, done); });
    EXPECT_EQ(digest, expected);
    EXPECT_EQ(std::ranges::count(done, true), crash_at / kStepsPerIteration);
  }
}

TEST(RecoveryTest, WeightsThatWereLoadedStayLoaded) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/first.safetensors";
  run_job(1, 1, [&](const Options& options) {
    TrainingModel model(nn::make_seeded(99, [] { return std::make_shared<BusyNetImpl>(); }),
                        options, optimizer(), regression_task());
    model.save(file);
  });
  const auto program = [&](Options options, std::int64_t crash_at) {
    options.seed(5);
    DataLoader loader(options, regression(kSamples, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    model.tell([](const std::string&) {});
    std::int64_t made = 0;
    model.on_step([&](std::int64_t, const StepResult&) {
      if (++made == crash_at) throw crash();
    });
    for (auto& iteration : loader) model.step(iteration);
    model.load(file);
    for (auto& iteration : loader) model.step(iteration);
    return model.digest();
  };
  std::string expected;
  run_job(1, kReplicas, [&](const Options& options) { expected = program(options, 0); });
  for (const std::int64_t crash_at : {4, 12}) {
    SCOPED_TRACE(crash_at);
    RestartedJob job;
    job.failed_attempt(ErrorKind::Bug, 1, kReplicas,
                       [&](const Options& options) { program(options, crash_at); });
    std::string digest;
    job.attempt(1, kReplicas, [&](const Options& options) { digest = program(options, 0); });
    EXPECT_EQ(digest, expected);
  }
}

TEST(RecoveryTest, WeightsNeedNotBeLoadedAgain) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/first.safetensors";
  const auto program = [&](Options options, std::int64_t crash_at) {
    options.seed(5);
    DataLoader loader(options, regression(kSamples, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    model.tell([](const std::string&) {});
    model.on_step([&](std::int64_t step, const StepResult&) {
      if (step == crash_at) throw crash();
    });
    if (!std::filesystem::exists(file)) model.save(file);
    if (model.resumed().step == 0) model.load(file);
    for ([[maybe_unused]] const int epoch : model.epochs(2)) {
      for (auto& iteration : loader) model.step(iteration);
    }
    return std::pair(model.digest(), model.steps());
  };
  std::pair<std::string, std::int64_t> expected, found;
  run_job(1, kReplicas, [&](const Options& options) { expected = program(options, 0); });
  RestartedJob job;
  job.failed_attempt(ErrorKind::Bug, 1, kReplicas,
                     [&](const Options& options) { program(options, 5); });
  job.attempt(1, kReplicas, [&](const Options& options) { found = program(options, 0); });
  EXPECT_EQ(found, expected);
}

/// Runs a program undisturbed, and again with a crash after each of its steps.
void expect_same_after_any_crash(
    const std::function<std::string(Options, const std::function<void()>& after_step)>& program) {
  std::string expected;
  std::int64_t steps = 0;
  run_job(1, kReplicas,
          [&](const Options& options) { expected = program(options, [&] { ++steps; }); });
  for (std::int64_t crash_at = 1; crash_at <= steps; ++crash_at) {
    SCOPED_TRACE(crash_at);
    RestartedJob job;
    std::int64_t made = 0;
    job.failed_attempt(ErrorKind::Bug, 1, kReplicas, [&](const Options& options) {
      program(options, [&] {
        if (++made == crash_at) throw crash();
      });
    });
    std::string digest;
    job.attempt(1, kReplicas, [&](const Options& options) { digest = program(options, [] {}); });
    EXPECT_EQ(digest, expected);
  }
}

TEST(RecoveryTest, TwoModelsInOneLoopGoOnTogether) {
  expect_same_after_any_crash([](Options options, const std::function<void()>& after_step) {
    options.seed(5);
    DataLoader loader(options, regression(24, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel a(small_net(), options, SGD({.lr = 0.05}), regression_task());
    TrainingModel b(busy_net(), options, optimizer(), regression_task());
    for (auto* model : {&a, &b}) {
      model->tell([](const std::string&) {});
      model->on_step([&](std::int64_t, const StepResult&) { after_step(); });
    }
    for ([[maybe_unused]] const int epoch : a.epochs(2)) {
      for (auto& iteration : loader) {
        a.step(iteration);
        b.step(iteration);
      }
    }
    return a.digest() + b.digest();
  });
}

TEST(RecoveryTest, AnEpochMayBeSeveralWalksOrAPartOfOne) {
  expect_same_after_any_crash([](Options options, const std::function<void()>& after_step) {
    options.seed(5);
    DataLoader loader(options, regression(24, 6, 3).set(), {.batch_size = kBatch, .shuffle = true});
    TrainingModel model(small_net(), options, SGD({.lr = 0.05}), regression_task());
    model.tell([](const std::string&) {});
    model.on_step([&](std::int64_t, const StepResult&) { after_step(); });
    for ([[maybe_unused]] const int epoch : model.epochs(2)) {
      for (auto& iteration : loader) model.step(iteration);
      int few = 0;
      for (auto& iteration : loader) {
        model.step(iteration);
        if (++few == 3) break;
      }
    }
    return model.digest();
  });
}

TEST(RecoveryTest, AWalkThatBreaksOffGoesOnWithWhatIsLeftOfIt) {
  expect_same_after_any_crash([](Options options, const std::function<void()>& after_step) {
    options.seed(5);
    DataLoader loader(options, regression(60, 6, 3).set(), {.batch_size = kBatch, .shuffle = true});
    TrainingModel model(small_net(), options, SGD({.lr = 0.05}), regression_task());
    model.tell([](const std::string&) {});
    model.on_step([&](std::int64_t, const StepResult&) { after_step(); });
    for ([[maybe_unused]] const int epoch : model.epochs(3)) {
      int few = 0;
      for (auto& iteration : loader) {
        model.step(iteration);
        if (++few == 4) break;
      }
    }
    return model.digest();
  });
}

TEST(RecoveryTest, AModelUsedAfterAnotherGoesOn) {
  expect_same_after_any_crash([](Options options, const std::function<void()>& after_step) {
    options.seed(5);
    DataLoader loader(options, regression(24, 6, 3).set(), {.batch_size = kBatch, .shuffle = true});
    std::string digests;
    for (int i = 0; i < 2; ++i) {
      TrainingModel model(small_net(), options, SGD({.lr = 0.05}), regression_task());
      model.tell([](const std::string&) {});
      model.on_step([&](std::int64_t, const StepResult&) { after_step(); });
      for ([[maybe_unused]] const int epoch : model.epochs(2)) {
        for (auto& iteration : loader) model.step(iteration);
      }
      digests += model.digest();
    }
    return digests;
  });
}

TEST(RecoveryTest, ALoaderOfOtherOptionsIsNotTrainedWithAtTheWrongPlace) {
  const auto program = [](const Options& options, std::int64_t crash_at) {
    Options others{options.world()};
    DataLoader loader(others, regression(24, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel model(small_net(), options, SGD({.lr = 0.05}), regression_task());
    model.tell([](const std::string&) {});
    model.on_step([&](std::int64_t step, const StepResult&) {
      if (step == crash_at) throw crash();
    });
    for ([[maybe_unused]] const int epoch : model.epochs(3)) {
      for (auto& iteration : loader) model.step(iteration);
    }
  };
  RestartedJob job;
  job.failed_attempt(ErrorKind::Bug, 1, kReplicas,
                     [&](const Options& options) { program(options, 6); });
  expect_error(
      [&] { job.attempt(1, kReplicas, [&](const Options& options) { program(options, 0); }); },
      ErrorKind::Options,
      "this run goes on with epoch 2, and the loader has begun with epoch 1\nmake loader and model "
      "from the same options");
}

TEST(RecoveryTest, AnotherModelBeginsAnew) {
  RestartedJob job;
  job.failed_attempt(ErrorKind::Bug, 1, kReplicas,
                     [](const Options& options) { train(options, crash_after(5, 0)); });
  job.attempt(1, kReplicas, [](Options options) {
    TrainingModel model(small_net(), options, SGD({.lr = 0.05}), regression_task());
    EXPECT_EQ(model.steps(), 0);
    EXPECT_EQ(model.resumed().step, 0);
  });
}

class CheckpointRunsTest : public ::testing::Test {
 protected:
  /// Checkpoints in the test's folder.
  Hooks taking(const std::string& every, int keep = 100) const {
    return {.options = [=, this](Options& options) {
      options.checkpoints({.folder = folder_.path() + "/run", .every = every, .keep_last = keep});
    }};
  }
  /// The same, and goes on.
  Hooks resuming(const std::string& from = {}) const {
    return {.options = [=, this](Options& options) {
      options.checkpoints({.folder = folder_.path() + "/run", .every = "1 epoch", .keep_last = 100})
          .resume(from);
    }};
  }

  Trained run(int instances, const Hooks& hooks) const {
    Trained result;
    run_job(instances, kReplicas, [&](const Options& options) {
      auto trained = train(options, hooks);
      if (options.world().instance() == 0) result = trained;
    });
    return result;
  }

  std::vector<std::filesystem::path> checkpoints() const {
    return checkpoint::list_checkpoints(folder_.path() + "/run");
  }

  ScratchFolder folder_;
};

TEST_F(CheckpointRunsTest, EveryStepCanBeGoneOnFromWithAnotherNumberOfInstances) {
  auto hooks = taking("100 epochs");
  hooks.on_step = [](const Options& options, std::int64_t) {
    if (options.world().instance() == 0) ::raise(SIGUSR1);
  };
  EXPECT_EQ(run(2, hooks), undisturbed());
  const auto paths = checkpoints();
  EXPECT_EQ(std::ssize(paths), kSteps);
  int instances = 1;
  for (const auto& path : paths) {
    SCOPED_TRACE(path);
    const Hooks from{.options = [&](Options& options) { options.resume(path.string()); }};
    EXPECT_EQ(run(instances, from), undisturbed());
    instances = instances % kReplicas + 1;
  }
}

TEST_F(CheckpointRunsTest, TakesThemBySteps) {
  auto hooks = taking("5 steps");
  run(1, hooks);
  // The next is not begun before one is written, so there may be fewer.
  const auto paths = checkpoints();
  ASSERT_FALSE(paths.empty());
  EXPECT_LE(paths.size(), 4U);
  EXPECT_EQ(checkpoint::Checkpoint::open(paths.front()).manifest().position.step, 5);
}

TEST_F(CheckpointRunsTest, TakesThemByTime) {
  auto hooks = taking("0.001 s");
  run(1, hooks);
  EXPECT_FALSE(checkpoints().empty());
}

TEST_F(CheckpointRunsTest, TellsWhatItGoesOnFrom) {
  run(1, taking("1 epoch"));
  ASSERT_EQ(checkpoints().size(), 3U);
  std::filesystem::remove_all(checkpoints().back());
  run_job(2, kReplicas, [&](Options options) {
    options.seed(5).device_iterations(kStepsPerIteration);
    options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
    resuming().options(options);
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    std::vector<std::string> told;
    model.tell([&](const std::string& text) { told.push_back(text); });
    EXPECT_EQ(model.resumed().step, 2 * kStepsPerEpoch);
    if (options.world().instance() != 0) return;
    EXPECT_EQ(model.resumed().checkpoint, checkpoints().back());
    EXPECT_THAT(told,
                ::testing::ElementsAre(::testing::StartsWith(
                    "goes on after step 16 (epoch 2), from " + checkpoints().back().string())));
  });
}

TEST_F(CheckpointRunsTest, AManifestSaysWhatTheCheckpointIs) {
  run(1, taking("1 epoch"));
  const auto opened = checkpoint::Checkpoint::open(checkpoints().back());
  const auto& manifest = opened.manifest();
  EXPECT_EQ(manifest.position, (checkpoint::Position{.step = kSteps,
                                                     .epoch = kEpochs,
                                                     .epoch_step = kStepsPerEpoch,
                                                     .finished_epochs = kEpochs}));
  EXPECT_EQ(manifest.weights, undisturbed().weights);
  EXPECT_THAT(manifest.options,
              ::testing::IsSupersetOf({std::pair<std::string, std::string>{"replicas", "3"},
                                       {"threads-per-device", "1"},
                                       {"batch-size", "2"},
                                       {"device-iterations", "2"},
                                       {"seed", "5"},
                                       {"optimizer", "AdamW"},
                                       {"schedule", "cosine"},
                                       {"epochs", "3"},
                                       {"clip-norm", "0.5"},
                                       {"ema-decay", "0.9"}}));
  for (const auto* name : {"exp_avg.first.weight", "exp_avg_sq.norm.bias", "average.second.weight",
                           "updates.first.bias", "progress.loss_scale"}) {
    EXPECT_NE(opened.state().find(name), nullptr) << name;
  }
  EXPECT_NE(opened.weights().find("fixed.weight"), nullptr);
  EXPECT_NE(opened.weights().find("norm.num_batches_tracked"), nullptr);
}

TEST_F(CheckpointRunsTest, OptionsThatContradictAreListedWithBothValues) {
  run(1, taking("1 epoch"));
  const auto contradicted = [&](const std::function<void(Options&)>& change, int replicas = 3) {
    run_job(1, replicas, [&](Options options) {
      options.seed(5).device_iterations(kStepsPerIteration);
      options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
      resuming().options(options);
      change(options);
      TrainingModel model(busy_net(), options, optimizer(), regression_task());
      model.tell([](const std::string&) {});
      model.compile();
    });
  };
  expect_error(
      [&] { contradicted([](Options& options) { options.seed(6).gradient_accumulation(2); }); },
      ErrorKind::Options, "gradient-accumulation was 1, is 2; seed was 5, is 6");
  expect_error([&] { contradicted([](Options&) {}, 2); }, ErrorKind::Options,
               "replicas was 3, is 2");
  // What is not said any more is a contradiction, too.
  expect_error(
      [&] {
        contradicted(
            [](Options& options) { options.schedule({.kind = ScheduleKind::Cosine}, kEpochs); });
      },
      ErrorKind::Options, "warmup-epochs was 0.5, is 0");
  expect_error(
      [&] {
        run_job(1, kReplicas, [&](Options options) {
          options.seed(5).device_iterations(kStepsPerIteration);
          options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
          resuming().options(options);
          DataLoader loader(options, regression(kSamples, 6, 3).set(), {.batch_size = 4});
          TrainingModel model(busy_net(), options, optimizer(), regression_task());
          model.tell([](const std::string&) {});
          model.compile(loader);
        });
      },
      ErrorKind::Options, "batch-size was 2, is 4; shuffle was yes, is no");
}

TEST_F(CheckpointRunsTest, ARestartDoesNotForgetAContradiction) {
  run(1, taking("1 epoch"));
  std::filesystem::remove_all(checkpoints().back());
  RestartedJob job;
  for (int attempt = 0; attempt < 2; ++attempt) {
    job.failed_attempt(ErrorKind::Options, 1, kReplicas, [&](Options options) {
      options.seed(5).device_iterations(kStepsPerIteration);
      options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
      resuming().options(options);
      DataLoader loader(options, regression(kSamples, 6, 3).set(),
                        {.batch_size = 4, .shuffle = true});
      TrainingModel model(busy_net(), options, optimizer(), regression_task());
      model.tell([](const std::string&) {});
      model.compile();  // before the loader is known
      for (auto& iteration : loader) model.step(iteration);
    });
  }
}

TEST_F(CheckpointRunsTest, ARestartDoesNotTakeWhatAnotherJobHasLeft) {
  run(1, taking("1 epoch"));
  RestartedJob job;
  for (int attempt = 0; attempt < 2; ++attempt) {
    job.failed_attempt(ErrorKind::Options, 1, kReplicas,
                       [&](const Options& options) { train(options, taking("1 epoch")); });
  }
  // One that was told where to go on does so in each attempt.
  const auto first = checkpoints().front();
  RestartedJob resumed;
  for (int attempt = 0; attempt < 2; ++attempt) {
    resumed.failed_attempt(ErrorKind::Bug, 1, kReplicas, [&](Options options) {
      options.seed(5).device_iterations(kStepsPerIteration);
      options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
      resuming(first.string()).options(options);
      TrainingModel model(busy_net(), options, optimizer(), regression_task());
      model.tell([](const std::string&) {});
      EXPECT_EQ(model.resumed().step, kStepsPerEpoch);
      resumed.lose_memory();
      throw crash();
    });
  }
  // And not into a folder that holds those of another.
  const Hooks elsewhere{.options = [&](Options& options) {
    options.checkpoints({.folder = folder_.path() + "/run"}).resume(folder_.path() + "/other");
  }};
  std::filesystem::copy(first, folder_.path() + "/other", std::filesystem::copy_options::recursive);
  expect_error([&] { run(1, elsewhere); }, ErrorKind::Options,
               "expected a folder without checkpoints, found 3");
}

TEST_F(CheckpointRunsTest, ADamagedOneIsNamedAndTheOneBeforeItTaken) {
  run(1, taking("1 epoch"));
  const auto paths = checkpoints();
  std::filesystem::resize_file(paths[2] / checkpoint::kStateName, 100);
  std::vector<std::string> told;
  run_job(1, kReplicas, [&](Options options) {
    options.seed(5).device_iterations(kStepsPerIteration);
    options.schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, kEpochs);
    resuming().options(options);
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    model.tell([&](const std::string& text) { told.push_back(text); });
    EXPECT_EQ(model.resumed().checkpoint, paths[1]);
  });
  EXPECT_THAT(told.front(), ::testing::StartsWith(paths[2].string() + " is damaged"));
  EXPECT_EQ(run(2, resuming()), undisturbed());
}

TEST_F(CheckpointRunsTest, AFolderInUseIsNotBegunIn) {
  run(1, taking("1 epoch"));
  expect_error([&] { run(1, taking("1 epoch")); }, ErrorKind::Options,
               "expected a folder without checkpoints, found 3");
}

TEST_F(CheckpointRunsTest, ResumeWantsACheckpointAndAutoDoesNot) {
  expect_error([&] { run(1, resuming()); }, ErrorKind::Options, "expected a checkpoint in");
  EXPECT_EQ(run(1, resuming("auto")), undisturbed());
  EXPECT_EQ(run(1, resuming("auto")), undisturbed());
}

TEST_F(CheckpointRunsTest, ResumeWithoutAFolderIsRefused) {
  const Hooks hooks{.options = [](Options& options) { options.resume(); }};
  expect_error([&] { run(1, hooks); }, ErrorKind::Options, "expected a folder of checkpoints");
}

TEST_F(CheckpointRunsTest, WhereMemoryIsLostARestartTakesTheNewest) {
  RestartedJob job;
  auto hooks = taking("4 steps");
  hooks.on_step = [](const Options& options, std::int64_t step) {
    // The writer of instance 0 ends what it has begun while the job comes down.
    if (step == 14 && options.world().instance() == 1) throw crash();
  };
  job.failed_attempt(ErrorKind::Bug, 2, kReplicas,
                     [&](const Options& options) { train(options, hooks); });
  job.lose_memory();
  ASSERT_FALSE(checkpoints().empty());
  std::mutex mutex;
  std::vector<std::int64_t> made;
  auto last = taking("4 steps");
  last.on_step = [&](const Options& options, std::int64_t step) {
    const std::lock_guard lock(mutex);
    if (options.world().instance() == 0) made.push_back(step);
  };
  EXPECT_EQ(last_attempt(job, 3, last), undisturbed());
  EXPECT_GT(made.front(), 4);
}

TEST_F(CheckpointRunsTest, SigtermEndsEveryInstanceAfterTheSameStepWithACheckpoint) {
  auto hooks = taking("100 epochs");
  std::mutex mutex;
  std::map<int, std::int64_t> last_step;
  hooks.on_step = [&](const Options& options, std::int64_t step) {
    const std::lock_guard lock(mutex);
    if (step == 5 && options.world().instance() == 1) ::raise(SIGTERM);
    last_step[options.world().instance()] = step;
  };
  expect_error([&] { run(2, hooks); }, ErrorKind::Stopped, "stopped after step");
  EXPECT_EQ(last_step[0], last_step[1]);
  ASSERT_EQ(checkpoints().size(), 1U);
  const auto taken = checkpoint::Checkpoint::open(checkpoints().front());
  EXPECT_EQ(taken.manifest().position.step, last_step[0]);
  EXPECT_EQ(taken.manifest().reason, "stopped");
  EXPECT_EQ(run(3, resuming()), undisturbed());
}

TEST_F(CheckpointRunsTest, ASigtermThatComesTwiceIsOne) {
  auto hooks = taking("100 epochs");
  hooks.on_step = [&](const Options&, std::int64_t step) {
    if (step != 5) return;
    ::raise(SIGTERM);
    ::raise(SIGTERM);
  };
  expect_error([&] { run(1, hooks); }, ErrorKind::Stopped, "stopped after step 6");
  EXPECT_EQ(run(1, resuming()), undisturbed());
}

TEST_F(CheckpointRunsTest, ASigtermBeforeTheFirstStepIsHeeded) {
  auto hooks = taking("100 epochs");
  hooks.on_step = [&](const Options&, std::int64_t step) { EXPECT_EQ(step, 1); };
  const train::StopSignals signals;
  ::raise(SIGTERM);
  expect_error([&] { run(2, hooks); }, ErrorKind::Stopped, "stopped after step 1 as SIGTERM asked");
  EXPECT_EQ(run(1, resuming()), undisturbed());
}

TEST_F(CheckpointRunsTest, ASigtermDuringAnEvaluationHasACheckpointAtOnce) {
  run_job(1, kReplicas, [&](Options options) {
    options.seed(5);
    options.checkpoints({.folder = folder_.path() + "/run", .every = "100 epochs"});
    DataLoader loader(options, regression(kSamples, 6, 3).set(), {.batch_size = kBatch});
    EvaluationLoader test(options, regression(kSamples, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    for (auto& iteration : loader) model.step(iteration);
    bool is_first = true;
    model.evaluate(test, WeightsKind::Trained, [&](std::int64_t) {
      if (std::exchange(is_first, false)) ::raise(SIGTERM);
    });
    ASSERT_TRUE(eventually([&] { return checkpoints().size() == 1; }, 10s));
    EXPECT_EQ(checkpoint::read_manifest(checkpoints().front()).position.step, kStepsPerEpoch);
    expect_error(
        [&] {
          for (auto& iteration : loader) model.step(iteration);
        },
        ErrorKind::Stopped, "stopped after step 9");
  });
}

TEST_F(CheckpointRunsTest, ProgramsWithLoopsOfTheirOwnHaveOneAfterEachEpoch) {
  run_job(1, kReplicas, [&](Options options) {
    options.checkpoints({.folder = folder_.path() + "/run", .keep_last = 9});
    DataLoader loader(options, regression(kSamples, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (auto& iteration : loader) model.step(iteration);
    }
  });
  EXPECT_EQ(checkpoints().size(), 3U);
}

TEST_F(CheckpointRunsTest, Sigusr1TakesOneAndTrainingGoesOn) {
  auto hooks = taking("100 epochs");
  hooks.on_step = [&](const Options&, std::int64_t step) {
    if (step == 5) ::raise(SIGUSR1);
  };
  EXPECT_EQ(run(1, hooks), undisturbed());
  ASSERT_EQ(checkpoints().size(), 1U);
  const auto taken = checkpoint::Checkpoint::open(checkpoints().front());
  EXPECT_EQ(taken.manifest().reason, "signal");
  EXPECT_EQ(taken.manifest().position.step, 5);
}

TEST_F(CheckpointRunsTest, SignalsDoAfterwardsWhatTheyDidBefore) {
  struct sigaction before {};
  struct sigaction after {};
  ::sigaction(SIGTERM, nullptr, &before);
  run(1, taking("1 epoch"));
  ::sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST_F(CheckpointRunsTest, OneThatCannotBeWrittenIsToldAndTrainingGoesOn) {
  std::vector<std::string> told;
  run_job(1, kReplicas, [&](Options options) {
    options.seed(5).device_iterations(kStepsPerIteration);
    options.checkpoints({.folder = folder_.path() + "/run", .every = "1 epoch"});
    DataLoader loader(options, regression(kSamples, 6, 3).set(), {.batch_size = kBatch});
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    model.tell([&](const std::string& text) { told.push_back(text); });
    model.compile();
    std::filesystem::remove_all(folder_.path() + "/run");
    for ([[maybe_unused]] const int epoch : model.epochs(2)) {
      for (auto& iteration : loader) model.step(iteration);
    }
    EXPECT_EQ(model.steps(), 2 * kStepsPerEpoch);
    EXPECT_FALSE(model.checkpoint());
  });
  EXPECT_THAT(told, ::testing::Contains(
                        ::testing::StartsWith("the checkpoint of step 8 could not be written: ")));
}

TEST_F(CheckpointRunsTest, TheBestOneStays) {
  const ScratchFolder folder;
  run_job(1, 1, [&](Options options) {
    options.checkpoints({.folder = folder.path() + "/run",
                         .every = "1 epoch",
                         .keep_last = 1,
                         .best_metric = "loss"});  // the greatest: the first epoch's
    DataLoader loader(options, regression(kSamples, 6, 3).set(), {.batch_size = 8});
    EvaluationLoader test(options, regression(kSamples, 6, 3).set(), {.batch_size = 8});
    TrainingModel model(small_net(), options, SGD({.lr = 0.05}), regression_task());
    for ([[maybe_unused]] const int epoch : model.epochs(4)) {
      for (auto& iteration : loader) model.step(iteration);
      model.evaluate(test);
    }
  });
  const auto left = checkpoint::list_checkpoints(folder.path() + "/run");
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(checkpoint::Checkpoint::open(left[0]).manifest().position.finished_epochs, 1);
  EXPECT_EQ(checkpoint::Checkpoint::open(left[0]).manifest().reason, "best");
  EXPECT_EQ(checkpoint::Checkpoint::open(left[1]).manifest().position.finished_epochs, 4);
}

TEST_F(CheckpointRunsTest, AskingForOneWithoutAFolderIsRefused) {
  run_job(1, 1, [](const Options& options) {
    TrainingModel model(small_net(), options, SGD({.lr = 0.05}), regression_task());
    expect_error([&] { model.checkpoint(); }, ErrorKind::Options, "no folder for checkpoints");
  });
}

}  // namespace
}  // namespace lockstep::testing
