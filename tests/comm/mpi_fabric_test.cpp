// Real ranks under mpirun on this machine, which believe to be on several hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/comm/mpi/join.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kMpirun = "/usr/bin/mpirun";

/// How the bytes go between ranks of one machine.
struct Wire {
  const char* name;
  const char* btl;  ///< what Open MPI calls it
};

std::vector<std::string> command(const std::string& scenario, const std::vector<std::string>& hosts,
                                 const Wire& wire) {
  std::vector<std::string> words{
      kMpirun, "--allow-run-as-root",         "--oversubscribe", "--mca", "btl", wire.btl,
      "-x",    "ASAN_OPTIONS=detect_leaks=0",  // of Open MPI
      "-np",   std::to_string(hosts.size()),  MPI_WORKER_BINARY, scenario};
  words.insert(words.end(), hosts.begin(), hosts.end());
  return words;
}

class MpiFabricTest : public ::testing::TestWithParam<Wire> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kMpirun)) GTEST_SKIP() << "no mpirun here";
    if (!comm::mpi::is_built()) GTEST_SKIP() << "this build has no MPI transport";
  }
  Finished run_job(const std::string& scenario, const std::vector<std::string>& hosts) {
    return run(command(scenario, hosts, GetParam()));
  }
};

INSTANTIATE_TEST_SUITE_P(Wires, MpiFabricTest,
                         ::testing::Values(Wire{"sockets", "tcp,self"},
                                           Wire{"memory", "vader,self"}),
                         [](const auto& wire) { return std::string(wire.param.name); });

TEST_P(MpiFabricTest, KnowsWhoIsOnWhichHost) {
  const auto job = run_job("end_well", {"a", "b", "a", "b"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
  for (const char* instance : {"0", "1", "2", "3"}) {
    EXPECT_THAT(job.err, HasSubstr(std::string("instance ") + instance + " sees a=0,2 b=1,3\n"));
  }
}

TEST_P(MpiFabricTest, MovesDistinctBytesBetweenAllHosts) {
  const auto job = run_job("exchange", {"a", "b", "c"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_P(MpiFabricTest, LeavesOutThoseThatLeadNoHost) {
  const auto job = run_job("exchange", {"a", "b", "a", "b"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_P(MpiFabricTest, UsesSeveralFabricsSideBySide) {
  const auto job = run_job("side_by_side", {"a", "b", "c"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_P(MpiFabricTest, ConnectsInstancesThatLeadNoHost) {
  const auto job = run_job("connect", {"a", "b", "a", "b"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_P(MpiFabricTest, PassesNotesOn) {
  const auto job = run_job("notes", {"a", "b", "c"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_P(MpiFabricTest, EndsWithTheCodeOfTheCause) {
  const auto job = run_job("fail_on_one", {"a", "b", "c"});
  EXPECT_EQ(job.exit_code, 3) << job.err;
  EXPECT_LT(job.time, 40s);
  EXPECT_THAT(job.err, HasSubstr("lockstep: the data of instance 1 is bad\n  try: other data\n"));
  EXPECT_THAT(job.err, HasSubstr("host 1 has failed: the data of instance 1 is bad"));
  EXPECT_THAT(job.err, HasSubstr("instance 0 ends with 7"));
  EXPECT_THAT(job.err, HasSubstr("instance 2 ends with 7"));
}

TEST_P(MpiFabricTest, EndsWhereOneThatLeadsNoHostFails) {
  const auto job = run_job("fail_on_last", {"a", "b", "b"});
  EXPECT_EQ(job.exit_code, 3) << job.err;
  EXPECT_LT(job.time, 40s);
}

TEST_P(MpiFabricTest, EndsWhereOneIsKilled) {
  const auto job = run_job("kill_one", {"a", "b", "c"});
  EXPECT_NE(job.exit_code, 0) << job.err;
  EXPECT_LT(job.time, 40s);
}

TEST_P(MpiFabricTest, GivesUpWhatIsUnderWay) {
  const auto job = run_job("give_up", {"a", "b"});
  EXPECT_EQ(job.exit_code, 6) << job.err;
  EXPECT_LT(job.time, 40s);
  EXPECT_THAT(job.err, HasSubstr("host 1 does not come"));
}

TEST_P(MpiFabricTest, EndsWhereOneNeverEnds) {
  const auto job = run_job("never_end", {"a", "b", "c"});
  EXPECT_EQ(job.exit_code, 6) << job.err;
  EXPECT_LT(job.time, 40s);
  EXPECT_THAT(job.err,
              HasSubstr("lockstep: mpi: expected all ranks of the MPI job to end, found that some "
                        "have not ended, nor said anything for 2 s\n  try: "));
}

TEST_P(MpiFabricTest, WaitsForOneThatSaysThatItWorksOn) {
  const auto job = run_job("end_late", {"a", "b", "c"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

/// A rank per host, which is no child of mpirun but of what mpirun has started.
TEST_P(MpiFabricTest, SpeaksInPlaceOfTheProcessThatMpirunStarted) {
  auto words = command("exchange", {"a", "b"}, GetParam());
  const auto worker = std::find(words.begin(), words.end(), MPI_WORKER_BINARY);
  words.insert(worker, {"sh", "-c", "\"$@\"; exit $?", "agent"});
  const auto job = run(words);
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

/// torchrun's variables tell each pair of ranks that it is alone on its host.
TEST_P(MpiFabricTest, CarriesEveryCollectiveBetweenHosts) {
  auto words = command("", {"", "", "", ""}, GetParam());
  words.erase(std::find(words.begin(), words.end(), MPI_WORKER_BINARY), words.end());
  const std::string script =
      "export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=4 LOCAL_WORLD_SIZE=2;"
      "export LOCAL_RANK=$((RANK % 2)) MASTER_ADDR=$PMIX_NAMESPACE-$((RANK / 2)) MASTER_PORT=1;"
      "export LOCKSTEP_TRANSPORT=mpi LOCKSTEP_STALL_TIMEOUT=20; exec \"$@\"";
  words.insert(words.end(), {"sh", "-c", script, "rank", COMM_WORKER_BINARY, "every_collective"});
  const auto job = run(words);
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_P(MpiFabricTest, SaysThatInstancesAreMissingWithoutMpirun) {
  // As if it were the first of two hosts' instances, the second of which is number 2.
  const auto job = run({MPI_WORKER_BINARY, "end_well", "a", "b", "a"});
  EXPECT_EQ(job.exit_code, 2) << job.err;
  EXPECT_THAT(job.err, HasSubstr("mpi: expected 3 instances in the MPI job, found 2 (0,2)\n"
                                 "  try: start the job with mpirun or pass --transport tcp"));
}

}  // namespace
}  // namespace lockstep::testing
