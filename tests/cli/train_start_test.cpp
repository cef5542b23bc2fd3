#include "lockstep/cli/train_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

/// Of every kind: a number, a word, flags, an option by its other name, and a value with a dash.
const Words kOptions{"--batch-size=16",         "--lr", "0.5",         "--eight-bit-io",
                     "--executable-cache-path", "c d",  "--summary=-s"};
const Words kSameOptions{"train", "--cache-path",   "c d",         "--batch-size", "16", "--lr",
                         "0.5",   "--eight-bit-io", "--summary=-s"};

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
  EXPECT_EQ(again.request.set.cache_dir, "c d");
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
        Words{"--max-restarts", "1"}, Words{"--only-output-from-instance", "0"},
        Words{"--tag-output", "always"}, Words{"-v"}, Words{"-q"}}) {
    EXPECT_TRUE(cli::takes_launcher(read(words))) << words.front();
    EXPECT_THAT(cli::train_job(read(words), "lockstep-train").run.command,
                ElementsAre("lockstep-train", "train"));
  }
}

TEST(TrainStartTest, RunsTheJobThatTheLauncherWouldBeAskedFor) {
  const auto job = cli::train_job(
      read(with(kOptions,
                {"--replicas", "8", "--num-instances", "4", "--threads-per-device", "2", "--bind",
                 "none", "--transport", "shm", "--stall-timeout", "7", "--max-restarts", "3",
                 "--only-output-from-instance", "1", "--tag-output", "mpi", "-v"})),
      "/bin/lockstep-train");
  EXPECT_EQ(job.run.command, with({"/bin/lockstep-train"}, kSameOptions));
  EXPECT_EQ(job.run.num_replicas, 8);
  EXPECT_EQ(job.run.num_instances, 4);
  EXPECT_EQ(job.run.threads_per_device, 2);
  EXPECT_EQ(job.run.bind, topology::BindPolicy::None);
  EXPECT_EQ(job.run.transport, topology::TransportKind::Shm);
  EXPECT_EQ(job.run.stall_timeout.count(), 7);
  EXPECT_EQ(job.run.max_restarts, 3);
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
}

}  // namespace
}  // namespace lockstep::testing
