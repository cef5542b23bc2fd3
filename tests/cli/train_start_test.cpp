#include "lockstep/cli/train_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/errors.h"

namespace lockstep::testing {
namespace {

using cli::TrainArguments;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

TrainArguments read(const Words& words, const topology::Identity& identity = {}) {
  return cli::parse_train_arguments(words, identity).value();
}

TrainArguments read(const Words& words, cli::TrainCommand command) {
  return cli::parse_train_arguments(words, {}, command).value();
}

topology::Identity launched() {
  topology::Identity identity;
  identity.launched_by = topology::LaunchedBy::Lockstep;
  identity.num_replicas = 8;
  identity.local_replicas = {0, 8};
  identity.threads_per_device = 1;
  return identity;
}

using Variables = std::map<std::string, std::string>;

topology::Machine machine_of(int cores) {
  topology::Machine machine;
  for (int i = 0; i < cores; ++i) machine.cores.push_back({.numa_node = 0, .cpus = {i}});
  return machine;
}

/// Of every kind: a number, a word, a name with a space, flags with and without a value, and a
/// value with a dash.
const Words kOptions{"--batch-size=16",    "--lr",       "0.5",         "--eight-bit-io",
                     "--recompute=blocks", "--data-dir", "d e",         "--nesterov=false",
                     "--precision",        "16.16",      "--summary=-s"};
const Words kSameOptions{"train",
                         "--data-dir",
                         "d e",
                         "--batch-size",
                         "16",
                         "--lr",
                         "0.5",
                         "--nesterov=false",
                         "--precision",
                         "16.16",
                         "--eight-bit-io",
                         "--recompute=blocks",
                         "--summary=-s"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(TrainStartTest, TellsTheTrainerTheSameInAJob) {
  const auto start = cli::start_in_job(read(kOptions, launched()),
                                       topology::Environment(Variables{{"OMP_NUM_THREADS", "1"}}));
  EXPECT_EQ(start.arguments, kSameOptions);
  EXPECT_THAT(start.environment.to_strings(), ElementsAre("OMP_NUM_THREADS=1"));
}

TEST(TrainStartTest, WhatTheTrainerIsToldMeansTheSame) {
  const auto first = read(with(kOptions, {"--threads-per-device", "3"}));
  auto told = cli::start_alone(first, machine_of(4), {}).arguments;
  EXPECT_EQ(told.front(), "train");
  told.erase(told.begin());
  const auto again = read(told);
  EXPECT_EQ(again.request.batch_size, 16);
  EXPECT_EQ(again.request.optimizer.lr(), 0.5);
  EXPECT_TRUE(again.request.eight_bit_io);
  EXPECT_EQ(again.request.set.data_dir, "d e");
  EXPECT_EQ(again.request.recompute, Recompute::Blocks);
  EXPECT_FALSE(again.request.optimizer.sgd().nesterov);
  EXPECT_EQ(again.request.summary_file, "-s");
  EXPECT_EQ(again.request.threads_per_device, 3);
  EXPECT_EQ(again.given, first.given);
}

TEST(TrainStartTest, DecidesThreadsAloneAsTheLauncherDoes) {
  struct Case {
    int cores;
    const char* replicas;
    const char* threads;
  };
  for (const auto& [cores, replicas, threads] :
       {Case{2, "8", "1"}, Case{16, "8", "2"}, Case{16, "1", "16"}, Case{17, "2", "8"}}) {
    const auto arguments = read({"--replicas", replicas});
    const auto start = cli::start_alone(arguments, machine_of(cores), {});
    EXPECT_THAT(start.arguments,
                ElementsAre("train", "--replicas", replicas, "--threads-per-device", threads));
    EXPECT_EQ(start.environment.get("OMP_NUM_THREADS"), threads);
    const auto plan =
        launch::plan_job(arguments.job.run, {{.name = "h", .slots = {}}}, machine_of(cores));
    EXPECT_EQ(std::to_string(plan.threads_per_device), threads);
  }
}

TEST(TrainStartTest, DividesCoresAmongTheDevicesOfAllReplicas) {
  const auto arguments = read({"--replicas", "2", "--ipus-per-replica", "4"});
  const auto start = cli::start_alone(arguments, machine_of(16), {});
  EXPECT_THAT(start.arguments, ElementsAre("train", "--replicas", "2", "--devices-per-replica", "4",
                                           "--threads-per-device", "2"));
  EXPECT_EQ(start.environment.get("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(arguments.job.run.devices_per_replica, 4);
}

TEST(TrainStartTest, TellsTheTrainerHowManyDevicesASplitComesTo) {
  const auto arguments = read({"--split", "layer2.0,layer3.0"});
  EXPECT_THAT(cli::start_alone(arguments, machine_of(6), {}).arguments,
              ElementsAre("train", "--split", "layer2.0,layer3.0", "--devices-per-replica", "3",
                          "--threads-per-device", "2"));
}

TEST(TrainStartTest, GivesTheJobItsDevicesAndTheTrainersTheirStages) {
  const auto job =
      cli::train_job(read({"--num-instances", "2", "--devices-per-replica", "2", "--split",
                           "layer2.0", "--pipeline", "gpipe", "--recompute"}),
                     "t");
  EXPECT_EQ(job.run.devices_per_replica, 2);
  EXPECT_THAT(job.run.command, ElementsAre("t", "train", "--split", "layer2.0", "--pipeline",
                                           "gpipe", "--recompute=stage"));
  EXPECT_EQ(cli::train_job(read({"--num-instances", "2", "--split", "a,b,c"}), "t")
                .run.devices_per_replica,
            4);
}

TEST(TrainStartTest, KeepsThingsWhereItIsTold) {
  const Words words{"--executable-cache-path", "c d"};
  const auto here = std::filesystem::absolute("c d").string();
  const auto alone = cli::start_alone(read(words), machine_of(1), {});
  EXPECT_THAT(alone.arguments, ElementsAre("train", "--threads-per-device", "1"));
  EXPECT_EQ(alone.environment.get("LOCKSTEP_CACHE_PATH"), here);
  auto torchrun = launched();
  torchrun.launched_by = topology::LaunchedBy::Torchrun;
  const auto in_job = cli::start_in_job(read(words, torchrun), {});
  EXPECT_THAT(in_job.arguments, ElementsAre("train"));
  EXPECT_EQ(in_job.environment.get("LOCKSTEP_CACHE_PATH"), here);
  const auto job = cli::train_job(read(words), "t");
  EXPECT_THAT(job.run.command, ElementsAre("t", "train"));
  EXPECT_EQ(job.run.cache_path, "c d");
}

TEST(TrainStartTest, MakesPlansOfJobsOfAnySizeInOneProcess) {
  const auto arguments = read({"--replicas", "8", "--num-instances", "4", "--bind", "none",
                               "--split", "layer2.0", "--cache-path", "/c", "--json", "p.json"},
                              cli::TrainCommand::Plan);
  const auto start = cli::start_alone(arguments, machine_of(32), {});
  EXPECT_THAT(start.arguments,
              ElementsAre("plan", "--replicas", "8", "--split", "layer2.0", "--num-instances", "4",
                          "--bind", "none", "--json", "p.json", "--devices-per-replica", "2",
                          "--threads-per-device", "2"));
  EXPECT_EQ(start.environment.get("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(start.environment.get("LOCKSTEP_CACHE_PATH"), "/c");

  const auto again =
      read({start.arguments.begin() + 1, start.arguments.end()}, cli::TrainCommand::Plan);
  cli::check_trainer_can_follow(again);
  EXPECT_EQ(again.job.run.num_instances, 4);
  EXPECT_EQ(again.job.run.num_replicas, 8);
  EXPECT_EQ(again.job.run.devices_per_replica, 2);
  EXPECT_EQ(again.job.run.threads_per_device, 2);
  EXPECT_EQ(again.request.devices_per_replica, 2);
  EXPECT_EQ(again.json_file, "p.json");
}

TEST(TrainStartTest, LetsThreadsThatShareCoresSleep) {
  const auto crowded = cli::start_alone(read({"--replicas", "8"}), machine_of(2), {});
  EXPECT_EQ(crowded.environment.get("OMP_WAIT_POLICY"), "passive");
  const auto roomy = cli::start_alone(read({"--replicas", "2"}), machine_of(2), {});
  EXPECT_EQ(roomy.environment.get("OMP_WAIT_POLICY"), std::nullopt);
}

TEST(TrainStartTest, KeepsThreadsThatTheUserHasSet) {
  const auto start = cli::start_alone(read({"--threads-per-device", "2"}), machine_of(8),
                                      topology::Environment(Variables{{"OMP_NUM_THREADS", "5"}}));
  EXPECT_THAT(start.arguments, ElementsAre("train", "--threads-per-device", "2"));
  EXPECT_EQ(start.environment.get("OMP_NUM_THREADS"), "5");
}

TEST(TrainStartTest, TakesTheLauncherForItsOptionsAlone) {
  EXPECT_FALSE(cli::takes_launcher(read({"--replicas", "8", "--threads-per-device", "1"})));
  EXPECT_FALSE(cli::takes_launcher(read({"--num-instances", "1", "--log-dir", "logs"})));
  EXPECT_TRUE(cli::takes_launcher(read({"--num-instances", "2"})));
  for (const auto& words :
       {Words{"--bind", "none"}, Words{"--transport", "local"}, Words{"--stall-timeout", "5"},
        Words{"--max-restarts", "1"}, Words{"--grace-period", "9"}, Words{"--chaos", "7"},
        Words{"--only-output-from-instance", "0"}, Words{"--tag-output", "always"}, Words{"-v"},
        Words{"-q"}}) {
    EXPECT_TRUE(cli::takes_launcher(read(words))) << words.front();
    EXPECT_THAT(cli::train_job(read(words), "lockstep-train").run.command,
                ElementsAre("lockstep-train", "train"));
  }
}

TEST(TrainStartTest, RunsTheJobThatTheLauncherWouldBeAskedFor) {
  const auto job = cli::train_job(read(with(kOptions, {"--replicas",
                                                       "8",
                                                       "--num-instances",
                                                       "4",
                                                       "--threads-per-device",
                                                       "2",
                                                       "--bind",
                                                       "none",
                                                       "--transport",
                                                       "shm",
                                                       "--stall-timeout",
                                                       "7",
                                                       "--max-restarts",
                                                       "3",
                                                       "--shrink",
                                                       "--grace-period",
                                                       "9",
                                                       "--chaos",
                                                       "7,mtbf=2,kinds=kill,slow",
                                                       "--only-output-from-instance",
                                                       "1",
                                                       "--tag-output",
                                                       "mpi",
                                                       "-v"})),
                                  "/bin/lockstep-train");
  EXPECT_EQ(job.run.command, with({"/bin/lockstep-train"}, kSameOptions));
  EXPECT_EQ(job.run.num_replicas, 8);
  EXPECT_EQ(job.run.num_instances, 4);
  EXPECT_EQ(job.run.threads_per_device, 2);
  EXPECT_EQ(job.run.bind, topology::BindPolicy::None);
  EXPECT_EQ(job.run.transport, topology::TransportKind::Shm);
  EXPECT_EQ(job.run.stall_timeout.count(), 7);
  EXPECT_EQ(job.run.max_restarts, 3);
  EXPECT_TRUE(job.run.shrink);
  EXPECT_EQ(job.run.grace_period.count(), 9);
  ASSERT_TRUE(job.run.chaos.has_value());
  EXPECT_EQ(*job.run.chaos, launch::parse_chaos("7,mtbf=2,kinds=kill,slow"));
  EXPECT_EQ(job.console.only_instance, 1);
  EXPECT_EQ(job.console.num_instances, 4);
  EXPECT_EQ(job.console.tags, ui::TagStyle::Mpi);
  EXPECT_EQ(job.console.verbosity, ui::Verbosity::Verbose);
  EXPECT_THAT(job.run.environment, IsEmpty());
}

TEST(TrainStartTest, GivesTheJobItsLogsAndOneReplicaPerInstance) {
  const auto job = cli::train_job(read({"--num-instances", "4", "--log-dir", "logs"}), "t");
  EXPECT_EQ(job.run.log_dir, "logs");
  EXPECT_THAT(job.run.command, ElementsAre("t", "train", "--log-dir", "logs"));
  EXPECT_EQ(job.run.num_replicas, std::nullopt);
}

TEST(TrainStartTest, SetsVectorUnitsBeforeLibrariesLoad) {
  if (cli::vector_units_here().size() == 1) GTEST_SKIP() << "none to choose from on this CPU";
  const Words words{"--cpu-features", "sse4"};
  const topology::Environment other(Variables{{"OPENBLAS_CORETYPE", "Zen"}});
  const auto alone = cli::start_alone(read(words), machine_of(1), other);
  EXPECT_EQ(alone.environment.get("OPENBLAS_CORETYPE"), "Nehalem");
  EXPECT_THAT(alone.arguments, ElementsAre("train", "--threads-per-device", "1"));
  const auto in_job = cli::start_in_job(read(words, launched()), other);
  EXPECT_EQ(in_job.environment.get("ATEN_CPU_CAPABILITY"), "default");
  EXPECT_THAT(in_job.arguments, ElementsAre("train"));
  EXPECT_THAT(cli::train_job(read(words), "t").run.environment,
              ::testing::Contains("ONEDNN_MAX_CPU_ISA=SSE41"));
}

TEST(TrainStartTest, TheTrainerItselfRefusesWhatItCannotFollow) {
  cli::check_trainer_can_follow(read(with(kOptions, {"--threads-per-device", "2"})));
  for (const auto& words : {Words{"--num-instances", "2"}, Words{"--bind", "none"}, Words{"-q"},
                            Words{"--cpu-features", "auto"}}) {
    expect_error([&] { cli::check_trainer_can_follow(read(words)); }, ErrorKind::Options,
                 "has to be followed before this program starts");
  }
  expect_error(
      [] {
        cli::check_trainer_can_follow(read({"--cpu-features", "auto"}, cli::TrainCommand::Plan));
      },
      ErrorKind::Options,
      "--cpu-features has to be followed before this program starts\n"
      "lockstep plan --cpu-features");
}

}  // namespace
}  // namespace lockstep::testing
