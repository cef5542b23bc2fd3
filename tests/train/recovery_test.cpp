#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/train/recovered_runs.h"

namespace lockstep::testing {
namespace {

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

}  // namespace
}  // namespace lockstep::testing
