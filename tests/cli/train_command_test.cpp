#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

/// `lockstep` beside a trainer that only tells what it was started with.
class TrainHandOnTest : public ::testing::Test {
 protected:
  TrainHandOnTest() {
    // The machine may choose the kernels of the BLAS for all of its programs.
    ::unsetenv("OPENBLAS_CORETYPE");
    folder_.write("lockstep-train",
                  "#!/bin/sh\n"
                  "echo \"$@, OpenMP $OMP_NUM_THREADS, BLAS ${OPENBLAS_CORETYPE-free}, "
                  "T ${LOCKSTEP_THREADS_PER_DEVICE-unset}${LOCKSTEP_CACHE_PATH+, cache "
                  "$LOCKSTEP_CACHE_PATH}${LOCKSTEP_DEVICES_PER_REPLICA+, S "
                  "$LOCKSTEP_DEVICES_PER_REPLICA}\"\n",
                  0755);
    run({"cp", LOCKSTEP_BINARY, folder_.path()});
  }

  std::vector<std::string> command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program());
    return arguments;
  }
  std::string program() const { return folder_.path() + "/lockstep"; }

  ScratchFolder folder_;
};

TEST_F(TrainHandOnTest, BecomesTheTrainerWhereItIsAlone) {
  const auto result = run(command({"train", "--replicas", "8", "--threads-per-device", "2",
                                   "--cpu-features", "auto", "--batch-size=16"}),
                          {.environment = {{"OMP_NUM_THREADS", "3"}}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "train --batch-size 16 --replicas 8 --threads-per-device 2, OpenMP 3, BLAS free, "
            "T unset\n");
}

TEST_F(TrainHandOnTest, StartsItselfOverSeveralInstances) {
  const auto result = run(command({"train", "--replicas", "8", "--num-instances", "2",
                                   "--threads-per-device", "2", "--batch-size=16"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out),
            "[0] train --batch-size 16, OpenMP 2, BLAS free, T 2, S 1\n"
            "[1] train --batch-size 16, OpenMP 2, BLAS free, T 2, S 1\n");
}

TEST_F(TrainHandOnTest, TakesItsPlaceUnderTheLauncher) {
  const auto result = run(
      command({"run", "--num-replicas", "8", "--num-instances", "2", "--threads-per-device", "2",
               "--only-output-from-instance", "1", program(), "train", "--batch-size=16"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "[1] train --batch-size 16, OpenMP 2, BLAS free, T 2, S 1\n");
}

TEST_F(TrainHandOnTest, AcceptsOnlyTheThreadsOfItsLauncher) {
  const auto with_threads = [&](const char* threads) {
    return run(command(
        {"run", "--threads-per-device", "2", program(), "train", "--threads-per-device", threads}));
  };
  const auto same = with_threads("2");
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.out, "train --threads-per-device 2, OpenMP 2, BLAS free, T 2, S 1\n");
  const auto other = with_threads("3");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("train: --threads-per-device is set by the launcher (2), found 3\n"));
  EXPECT_THAT(other.err, HasSubstr("try: pass the option to 'lockstep run' instead"));
}

TEST_F(TrainHandOnTest, SpreadsReplicasOverDevicesAloneAndInAJob) {
  const std::vector<std::string> options{
      "train",        "--split",     "layer2.0,layer3.0",    "--recompute=blocks",
      "--cache-path", "/some/cache", "--threads-per-device", "1"};
  EXPECT_EQ(run(command(options)).out,
            "train --split layer2.0,layer3.0 --recompute=blocks --devices-per-replica 3 "
            "--threads-per-device 1, OpenMP 1, BLAS free, T unset, cache /some/cache\n");
  auto in_job = options;
  in_job.insert(in_job.end(), {"--num-instances", "2", "--only-output-from-instance", "1"});
  EXPECT_EQ(run(command(in_job)).out,
            "[1] train --split layer2.0,layer3.0 --recompute=blocks, OpenMP 1, BLAS free, T 1, "
            "cache /some/cache, S 3\n");
}

TEST_F(TrainHandOnTest, PlansAJobInOneProcess) {
  const auto result = run(command({"plan", "--replicas", "8", "--num-instances", "3", "-q",
                                   "--threads-per-device", "2", "--cache-path", "/some/cache"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "plan --replicas 8 --num-instances 3 --quiet --threads-per-device 2, OpenMP 2, BLAS "
            "free, T unset, cache /some/cache\n");
}

TEST_F(TrainHandOnTest, PlansNothingUnderALauncher) {
  const auto result = run(command({"run", program(), "plan"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("plan: expected to be started by itself, found that a launcher "
                                    "has started it\n"));
  EXPECT_THAT(result.err, HasSubstr("try: run 'lockstep plan' without the launcher"));
}

TEST_F(TrainHandOnTest, ComputesWithAsManyThreadsAloneAsInAJob) {
  const std::vector<std::string> arguments{"train", "--replicas", "2"};
  auto in_job = arguments;
  in_job.insert(in_job.end(), {"--num-instances", "2", "--only-output-from-instance", "0"});
  const auto threads_of = [](const std::string& line) {
    const auto begin = line.find("OpenMP ");
    return line.substr(begin, line.find(',', begin) - begin);
  };
  EXPECT_EQ(threads_of(run(command(arguments)).out), threads_of(run(command(in_job)).out));
}

TEST_F(TrainHandOnTest, HoldsLibrariesToAVectorUnitBeforeTheyLoad) {
  const auto probe = run(command({"train", "--cpu-features", "sse4"}));
  if (probe.exit_code == 4) GTEST_SKIP() << probe.err;
  EXPECT_THAT(probe.out, HasSubstr("BLAS Nehalem"));
  EXPECT_THAT(run(command({"train", "--cpu-features", "sse4", "-q"})).out,
              HasSubstr("train, OpenMP"));
  EXPECT_THAT(run(command({"train", "--cpu-features", "sse4", "-q"})).out,
              HasSubstr("BLAS Nehalem"));
}

TEST(TrainCommandTest, SaysSoWhereThereIsNoTrainer) {
  const ScratchFolder folder;
  run({"cp", LOCKSTEP_BINARY, folder.path()});
  for (const auto* instances : {"1", "2"}) {
    const auto result = run({folder.path() + "/lockstep", "train", "--num-instances", instances});
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_THAT(result.err, HasSubstr("lockstep-train: expected beside this program"));
    EXPECT_THAT(result.err, HasSubstr("try: build or install lockstep as a whole"));
  }
}

TEST(TrainCommandTest, ShowsItsOptionsInGroupsWithTheirDefaults) {
  const auto help = lockstep({"train", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.err, "");
  for (const auto* text : {"Usage: lockstep train [options]\n",
                           "\nModel and data:\n",
                           "\nBatches:\n",
                           "\nTraining:\n",
                           "\nLoading:\n",
                           "\nModel parallelism:\n",
                           "\nPlacement:\n",
                           "\nOutput:\n",
                           "--batch-size B=64 ",
                           "--model NAME=resnet20 ",
                           "--dataset NAME=fashion-mnist ",
                           "=standard ",
                           "=constant ",
                           "=32.32 ",
                           "=bf16 ",
                           "--momentum SHARE=0.9 ",
                           "[0.1 for sgd, 0.001 for others]",
                           "--executable-cache-path",
                           "--devices-per-replica,--ipus-per-replica S=1",
                           "--split BLOCK[,BLOCK]",
                           "--pipeline ORDER=1f1b ",
                           "--recompute [stage|blocks]"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
}

TEST(PlanCommandTest, ShowsTheOptionsOfTrainAndItsOwn) {
  const auto help = lockstep({"plan", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.err, "");
  for (const auto* text :
       {"Usage: lockstep plan [options]\n", "without training", "\nModel parallelism:\n",
        "--json FILE", "Example: lockstep plan --model resnet101"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  EXPECT_THAT(lockstep({"train", "--help"}).out, ::testing::Not(HasSubstr("--json")));
}

TEST(TrainCommandTest, NamesTheOptionThatWasProbablyMeant) {
  const auto result = lockstep({"train", "--gradient-acumulation", "8"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "lockstep: train: unknown option '--gradient-acumulation'\n"
            "  try: --gradient-accumulation\n");
}

TEST(TrainCommandTest, RefusesBeforeAnythingStarts) {
  const auto conflict = lockstep({"train", "--num-instances", "4", "--replicas", "3"});
  EXPECT_EQ(conflict.exit_code, 2);
  EXPECT_EQ(conflict.err,
            "lockstep: train: 4 instances need a replica each, but --replicas is 3\n"
            "  try: raise --replicas to 4 or lower --num-instances to 3\n");
  EXPECT_EQ(lockstep({"train", "--device", "cuda"}).exit_code, 4);
  EXPECT_EQ(lockstep({"train", "--export", "/no/such/w.pt"}).exit_code, 5);
}

TEST(TrainCommandTest, RefusesReplicasUnderTheLauncherInEveryInstance) {
  const auto result = lockstep({"run", "--num-replicas", "8", "--num-instances", "2",
                                LOCKSTEP_BINARY, "train", "--replicas", "8"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("train: 8 replicas are set by the launcher, found --replicas"));
  EXPECT_THAT(result.err, HasSubstr("try: pass --num-replicas to it instead"));
}

}  // namespace
}  // namespace lockstep::testing
