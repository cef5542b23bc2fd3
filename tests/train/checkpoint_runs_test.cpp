#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/recovery/stop_signals.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"
#include "tests/train/recovered_runs.h"

namespace lockstep::testing {
namespace {

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
  hooks.on_step = [](const Options&, std::int64_t) { ::raise(SIGUSR1); };
  // Alone: signals are the process's, and two threads of it would share them.
  EXPECT_EQ(run(1, hooks), undisturbed());
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
    set_up(options);
    resuming().options(options);
    TrainingModel model(busy_net(), options, optimizer(), regression_task());
    std::vector<std::string> told;
    model.tell([&](const std::string& text) { told.push_back(text); });
    EXPECT_EQ(model.resumed().step, 2 * kStepsPerEpoch);
    if (options.world().instance() != 0) return;
    EXPECT_EQ(model.resumed().checkpoint, checkpoints().back());
    EXPECT_THAT(told,
                ::testing::ElementsAre(::testing::StartsWith(
                    "continues after step 16 (epoch 2), from " + checkpoints().back().string())));
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
      set_up(options);
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
          set_up(options);
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
      set_up(options);
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
      set_up(options);
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
    set_up(options);
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
  expect_error([&] { run(2, hooks); }, ErrorKind::Stopped, "stopped by SIGTERM after step");
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
  expect_error([&] { run(1, hooks); }, ErrorKind::Stopped, "stopped by SIGTERM after step 6");
  EXPECT_EQ(run(1, resuming()), undisturbed());
}

TEST_F(CheckpointRunsTest, ASigtermBeforeTheFirstStepIsHeeded) {
  auto hooks = taking("100 epochs");
  hooks.on_step = [&](const Options&, std::int64_t step) { EXPECT_EQ(step, 1); };
  const train::StopSignals signals;
  ::raise(SIGTERM);
  expect_error([&] { run(2, hooks); }, ErrorKind::Stopped, "stopped by SIGTERM after step 1");
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
    ASSERT_TRUE(eventually([&] { return checkpoints().size() == 1; }, 60s));
    EXPECT_EQ(checkpoint::read_manifest(checkpoints().front()).position.step, kStepsPerEpoch);
    expect_error(
        [&] {
          for (auto& iteration : loader) model.step(iteration);
        },
        ErrorKind::Stopped, "stopped by SIGTERM after step 9");
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
