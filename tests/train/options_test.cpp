#include "lockstep/train/api/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <set>

#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/topology/machine.h"
#include "lockstep/train/planner/job_layout.h"
#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::expect_error;

using Setter = std::pair<std::string, std::function<void(Options&)>>;

std::vector<Setter> setters() {
  return {{"replicas", [](Options& it) { it.replicas(2); }},
          {"gradient_accumulation", [](Options& it) { it.gradient_accumulation(2); }},
          {"device_iterations", [](Options& it) { it.device_iterations(2); }},
          {"threads_per_device", [](Options& it) { it.threads_per_device(2); }},
          {"reduction", [](Options& it) { it.reduction(Reduction::Sum); }},
          {"reduction_order", [](Options& it) { it.reduction_order(ReductionOrder::Fast); }},
          {"precision", [](Options& it) { it.precision(Precision::P16_16); }},
          {"loss_scale", [](Options& it) { it.loss_scale(2); }},
          {"schedule", [](Options& it) { it.schedule({}, 2); }},
          {"seed", [](Options& it) { it.seed(2); }},
          {"output", [](Options& it) { it.output(OutputMode::All); }},
          {"cache", [](Options& it) { it.cache("there"); }},
          {"checkpoints", [](Options& it) { it.checkpoints({.folder = "there"}); }},
          {"resume", [](Options& it) { it.resume(); }},
          {"must_match", [](Options& it) { it.must_match("data", "mine"); }}};
}

void expect_frozen_by(Options& options, const std::string& user) {
  for (const auto& [name, set] : setters()) {
    expect_error([&, set = set] { set(options); }, ErrorKind::Options,
                 "Options::" + name + ": these options are in use by a " + user +
                     " and cannot be changed\nset all options before they are used, or change a "
                     "copy");
  }
}

TEST(OptionsTest, AreWhatWasSet) {
  const auto options = alone(3)
                           .gradient_accumulation(4)
                           .device_iterations(5)
                           .threads_per_device(6)
                           .reduction(Reduction::Sum)
                           .reduction_order(ReductionOrder::Fast)
                           .precision(Precision::P16_16, Half::F16)
                           .loss_scale(1024)
                           .schedule({.kind = ScheduleKind::Cosine, .warmup_epochs = 0.5}, 7)
                           .seed(8)
                           .output(OutputMode::EveryN, 9)
                           .cache("there")
                           .checkpoints({.folder = "here", .every = "10 min", .keep_last = 4})
                           .resume("auto")
                           .must_match("data", "mine");
  EXPECT_EQ(options.replicas(), 3);
  EXPECT_EQ(options.gradient_accumulation(), 4);
  EXPECT_EQ(options.device_iterations(), 5);
  EXPECT_EQ(options.threads_per_device(), 6);
  EXPECT_EQ(options.reduction(), Reduction::Sum);
  EXPECT_EQ(options.reduction_order(), ReductionOrder::Fast);
  EXPECT_EQ(options.precision(), Precision::P16_16);
  EXPECT_EQ(options.half(), Half::F16);
  EXPECT_EQ(options.loss_scale(), 1024);
  EXPECT_EQ(options.schedule().kind, ScheduleKind::Cosine);
  EXPECT_EQ(options.schedule().warmup_epochs, 0.5);
  EXPECT_EQ(options.epochs(), 7);
  EXPECT_EQ(options.seed(), 8U);
  EXPECT_EQ(options.output(), OutputMode::EveryN);
  EXPECT_EQ(options.output_every(), 9);
  EXPECT_EQ(options.cache(), "there");
  EXPECT_EQ(options.checkpoints()->folder, "here");
  EXPECT_EQ(options.checkpoints()->every, "10 min");
  EXPECT_EQ(options.checkpoints()->keep_last, 4);
  EXPECT_EQ(options.resume_from().from, checkpoint::Resume::From::NewestIfAny);
  EXPECT_THAT(options.to_match(), ElementsAre(std::pair("data", "mine")));
}

TEST(OptionsTest, AreFrozenByALoader) {
  auto options = alone();
  const DataLoader loader(options, testing::regression(4, 2, 1).set(), {});
  expect_frozen_by(options, "DataLoader");
}

TEST(OptionsTest, AreFrozenByALoaderForEvaluation) {
  auto options = alone();
  const EvaluationLoader loader(options, testing::regression(4, 2, 1).set(), {});
  expect_frozen_by(options, "EvaluationLoader");
}

TEST(OptionsTest, AreFrozenByAModelUnderTheNameOfTheirFirstUser) {
  auto options = alone();
  const TrainingModel model(testing::small_net(), options, SGD());
  const DataLoader loader(options, testing::regression(4, 2, 1).set(), {});
  expect_frozen_by(options, "TrainingModel");
}

TEST(OptionsTest, ACopyOfFrozenOnesCanBeChangedAgain) {
  auto options = alone().seed(1);
  const TrainingModel model(testing::small_net(), options, SGD());
  auto copy = options;
  copy.seed(2);
  EXPECT_EQ(copy.seed(), 2U);
  EXPECT_EQ(options.seed(), 1U);
  Options assigned{World(topology::Identity{})};
  assigned = options;
  assigned.seed(3);
  EXPECT_EQ(assigned.seed(), 3U);
  expect_frozen_by(options, "TrainingModel");
}

TEST(OptionsTest, AreNotFrozenByALoaderThatCouldNotBeMade) {
  auto options = alone();
  expect_error([&] { DataLoader(options, nullptr, {}); }, ErrorKind::Options,
               "DataLoader: expected a dataset, found a null pointer");
  EXPECT_EQ(options.seed(5).seed(), 5U);
}

Options launched(int replicas, std::optional<int> threads) {
  auto identity = testing::identity_of(0, 1, replicas);
  identity.threads_per_device = threads;
  return Options(World(identity));
}

TEST(OptionsTest, RefuseToSetAgainWhatTheLauncherSet) {
  try {
    launched(8, 1).replicas(4);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_STREQ(error.what(), "Options::replicas: 8 replicas are set by the launcher");
    EXPECT_EQ(error.hint(), "pass --num-replicas to it instead");
  }
  expect_error([] { launched(1, 1).replicas(8); }, ErrorKind::Options,
               "Options::replicas: 1 replica is set by the launcher");
  expect_error([] { launched(8, 2).threads_per_device(2); }, ErrorKind::Options,
               "Options::threads_per_device: 2 threads a device are set by the launcher\npass "
               "--threads-per-device to it instead");
  expect_error([] { launched(8, 1).threads_per_device(2); }, ErrorKind::Options,
               "Options::threads_per_device: 1 thread a device is set by the launcher");
}

TEST(OptionsTest, TakeThreadsThatTheLauncherDidNotSet) {
  EXPECT_EQ(launched(8, std::nullopt).threads_per_device(2).threads_per_device(), 2);
}

TEST(OptionsTest, RefuseNumbersThatCannotBeMeant) {
  const auto refuses = [](const std::function<void(Options&)>& set, const std::string& text) {
    auto options = alone();
    expect_error([&] { set(options); }, ErrorKind::Options, "Options::" + text);
  };
  refuses([](auto& it) { it.replicas(0); }, "replicas: expected at least 1, found 0");
  refuses([](auto& it) { it.gradient_accumulation(-3); },
          "gradient_accumulation: expected at least 1, found -3");
  refuses([](auto& it) { it.device_iterations(0); },
          "device_iterations: expected at least 1, found 0");
  refuses([](auto& it) { it.threads_per_device(0); },
          "threads_per_device: expected at least 1, found 0");
  refuses([](auto& it) { it.schedule({}, 0); }, "schedule: expected at least 1, found 0");
  refuses([](auto& it) { it.output(OutputMode::EveryN, 0); },
          "output: expected at least 1, found 0");
  refuses([](auto& it) { it.checkpoints({}); }, "checkpoints: expected a folder, found none");
  refuses([](auto& it) { it.checkpoints({.folder = "c", .keep_last = 0}); },
          "checkpoints: expected at least 1, found 0");
  refuses([](auto& it) { it.checkpoints({.folder = "c", .every = "often"}); },
          "checkpoints: expected");
  EXPECT_EQ(alone().schedule({.warmup_epochs = 0.5}, 1).schedule().warmup_epochs, 0.5);
  for (const double scale : {0.0, 0.5, 3.0, -2.0, 0x1p61, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    refuses([scale](auto& it) { it.loss_scale(scale); },
            "loss_scale: expected a power of two from 1 on, found");
  }
  EXPECT_EQ(alone().loss_scale(1).loss_scale(), 1);
}

TEST(OptionsTest, RefuseSchedulesThatCannotBeMeant) {
  expect_error([] { alone().schedule({.kind = ScheduleKind::Step, .step_epochs = 0}, 3); },
               ErrorKind::Options, "schedule: expected more than 0 epochs from fall to fall");
  expect_error([] { alone().schedule({.warmup_epochs = -1}, 3); }, ErrorKind::Options,
               "schedule: expected a warm-up of 0 or more, found -1");
  expect_error([] { alone().schedule({.warmup_epochs = 3}, 3); }, ErrorKind::Options,
               "schedule: expected a warm-up shorter than the run");
}

TEST(JobLayoutTest, DealsReplicasOutToTheDevicesOfThisMachine) {
  const auto cores = launch::discover_machine().usable_cores();
  const auto layout = train::lay_out(alone(5));
  EXPECT_EQ(layout.replicas, 5);
  EXPECT_EQ(layout.local, (topology::ReplicaRange{0, 5}));
  EXPECT_EQ(layout.threads_per_device, 1);
  EXPECT_EQ(layout.num_devices, std::min(cores, 5));
  for (int replica = 0; replica < 5; ++replica) {
    EXPECT_THAT(layout.device_of[static_cast<std::size_t>(replica)],
                ElementsAre(replica % layout.num_devices));
  }
}

TEST(JobLayoutTest, DividesTheCoresAmongReplicasWhereNobodySaysHow) {
  const auto cores = launch::discover_machine().usable_cores();
  const World world{topology::Identity{}};
  EXPECT_EQ(train::lay_out(Options(world)).threads_per_device, cores);
  EXPECT_EQ(train::lay_out(Options(world).replicas(2)).threads_per_device, std::max(1, cores / 2));
  const auto many = train::lay_out(Options(world).replicas(4 * cores));
  EXPECT_EQ(many.threads_per_device, 1);
  EXPECT_EQ(many.num_devices, cores);
}

TEST(JobLayoutTest, NumbersTheLaunchersDevicesInTheOrderOfReplicas) {
  auto identity = testing::identity_of(1, 2, 8);
  identity.device_ids = {5, 3, 5, 3};
  identity.threads_per_device = 7;
  const auto layout = train::lay_out(Options(World(identity)));
  EXPECT_EQ(layout.replicas, 8);
  EXPECT_EQ(layout.local, (topology::ReplicaRange{4, 4}));
  EXPECT_EQ(layout.threads_per_device, 7);
  EXPECT_EQ(layout.num_devices, 2);
  EXPECT_THAT(layout.device_of,
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(layout.device_ids, ElementsAre(5, 3));
  EXPECT_EQ(layout.num_first_devices(), 2);
}

TEST(JobLayoutTest, GivesEachStageADeviceRoundRobin) {
  auto identity = testing::identity_of(0, 1, 2, 3);
  identity.device_ids = {0, 1, 2, 3, 0, 1};
  const auto layout = train::lay_out(Options(World(identity)));
  EXPECT_EQ(layout.stages, 3);
  EXPECT_EQ(layout.num_devices, 4);
  EXPECT_THAT(layout.device_of, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 0, 1)));
  EXPECT_EQ(layout.num_first_devices(), 2);
}

TEST(JobLayoutTest, DividesTheCoresAmongStages) {
  const auto cores = launch::discover_machine().usable_cores();
  const World world{topology::Identity{}};
  const auto layout = train::lay_out(Options(world).devices_per_replica(2));
  EXPECT_EQ(layout.threads_per_device, std::max(1, cores / 2));
  EXPECT_EQ(layout.device_of.front().size(), 2U);
}

TEST(OptionsTest, HasAsManyDevicesPerReplicaAsStagesBegin) {
  auto options = alone();
  EXPECT_EQ(options.devices_per_replica(), 1);
  options.begin_stage("layer2").begin_stage("layer3");
  EXPECT_EQ(options.devices_per_replica(), 3);
  options.devices_per_replica(2);
  testing::expect_error([&] { (void)options.devices_per_replica(); }, ErrorKind::Options,
                        "expected 1 of them for 2 devices per replica, found 2");
  testing::expect_error([&] { options.devices_per_replica(0); }, ErrorKind::Options,
                        "Options::devices_per_replica: expected at least 1, found 0");
}

TEST(OptionsTest, NamesOurLauncherWhereAnotherOneHasNoSuchFlag) {
  auto identity = testing::identity_of(0, 1, 2);
  identity.launched_by = topology::LaunchedBy::Torchrun;
  Options options{World(identity)};
  testing::expect_error([&] { options.devices_per_replica(2); }, ErrorKind::Options,
                        "start it with 'lockstep run --devices-per-replica'");
}

TEST(OptionsTest, LeavesDevicesPerReplicaToTheLauncher) {
  Options options(World(testing::identity_of(0, 1, 2, 2)));
  EXPECT_EQ(options.devices_per_replica(), 2);
  testing::expect_error([&] { options.devices_per_replica(2); }, ErrorKind::Options,
                        "2 devices per replica are set by the launcher");
  options.begin_stage("a").begin_stage("b");
  testing::expect_error([&] { (void)options.devices_per_replica(); }, ErrorKind::Options,
                        "pass --devices-per-replica 3 to it instead");
}

TEST(JobLayoutTest, LetsInstance0DecideThreadsWhereTheLauncherDoesNot) {
  std::mutex mutex;
  std::vector<int> threads;
  comm::local::run_threads(3, [&](comm::Communicator& communicator) {
    auto identity = testing::identity_of(communicator.rank(), 3, 3);
    identity.threads_per_device.reset();
    Options options{World(identity, communicator)};
    options.threads_per_device(3 + communicator.rank());
    const auto layout = train::lay_out(options);
    const std::lock_guard lock(mutex);
    threads.push_back(layout.threads_per_device);
  });
  EXPECT_THAT(threads, ElementsAre(3, 3, 3));
}

}  // namespace
}  // namespace lockstep
