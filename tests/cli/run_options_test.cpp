#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

TEST(RunOptionsTest, StopsReadingOptionsAtTheProgram) {
  EXPECT_EQ(lockstep({"run", "echo", "--num-instances", "4", "-v", "--", "x"}).out,
            "--num-instances 4 -v -- x\n");
}

TEST(RunOptionsTest, TakesWhatFollowsTwoDashesForTheProgram) {
  const auto dashes = lockstep({"run", "--num-instances", "2", "--", "echo", "-n", "--"});
  EXPECT_EQ(sorted_lines(dashes.out), "[0] --\n[1] --\n");
  EXPECT_THAT(lockstep({"run", "--", "--strange"}).err, HasSubstr("program '--strange'"));
}

struct BadCall {
  std::vector<std::string> arguments;
  int exit_code;
  const char* complaint;
  friend std::ostream& operator<<(std::ostream& out, const BadCall& bad) {
    return out << bad.complaint;
  }
};

class BadCallTest : public ::testing::TestWithParam<BadCall> {};

TEST_P(BadCallTest, IsRefusedBeforeAnythingStarts) {
  auto arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "run");
  const auto result = lockstep(arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_THAT(result.err, HasSubstr(GetParam().complaint));
  EXPECT_EQ(result.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCallTest,
    ::testing::Values(
        BadCall{{}, 2, "run: expected a program to start, found none"},
        BadCall{{"--num-instance", "4", "echo"}, 2, "try: --num-instances"},
        BadCall{{"--num-instances", "four", "echo"}, 2, "--num-instances"},
        BadCall{{"--num-instances", "4", "--num-replicas", "3", "echo"},
                2,
                "4 instances need a replica each, but --num-replicas is 3"},
        BadCall{{"--num-instances", "0", "echo"}, 2, "--num-instances is 0"},
        BadCall{{"--bind", "hard", "echo"}, 2, "hard not in {auto,core,none,numa}"},
        BadCall{{"--transport", "udp", "echo"}, 2, "udp not in {auto,local,mpi,shm,tcp}"},
        BadCall{{"--bind", "core", "--num-instances", "9999", "echo"}, 2, "need a core each"},
        BadCall{{"--tag-output", "red", "echo"}, 2, "red not in {always,auto,mpi,never}"},
        BadCall{{"--only-output-from-instance", "1", "echo"},
                2,
                "--only-output-from-instance is 1, expected 0 to 0"},
        BadCall{{"--env", "RANK=1", "echo"}, 2, "--env RANK: the launcher sets this"},
        BadCall{{"--host", "a:0", "echo"}, 2, "host list: 'a:0'"},
        BadCall{{"--host", "a", "--hostfile", "b", "echo"}, 2, "found both"},
        BadCall{{"--hostfile", "/no/such", "echo"}, 5, "read /no/such: No such file"},
        BadCall{{"--launcher", "local", "--host", "elsewhere", "echo"},
                4,
                "host 'elsewhere' is not this machine"},
        BadCall{{"--config", "/no/such", "echo"}, 2, "/no/such"},
        BadCall{{"--log-dir", "/proc/nope", "echo"}, 5, "--log-dir /proc/nope"},
        BadCall{{"--export-config", "/no/such/file", "echo"}, 5, "write /no/such/file"},
        BadCall{{"-v", "-q", "echo"}, 2, "expected --verbose or --quiet, found both"},
        BadCall{{"--max-restarts", "-1", "echo"}, 2, "--max-restarts is -1"},
        BadCall{{"--shrink", "echo"},
                2,
                "run: --shrink takes effect with the restart after 2 failures in a row, but "
                "--max-restarts is 0, expected at least 2"},
        BadCall{{"--shrink", "--max-restarts", "1", "echo"}, 2, "--max-restarts is 1, expected"},
        BadCall{{"--chaos", "x", "echo"}, 2, "--chaos is 'x', expected a seed first"},
        BadCall{{"--chaos", "1", "--stall-timeout", "0", "echo"},
                2,
                "--chaos stops instances, which nobody would notice: --stall-timeout is 0"},
        BadCall{{"--env", "LOCKSTEP_EVENTS=1", "echo"}, 2, "--env LOCKSTEP_EVENTS: the launcher"},
        BadCall{{"--env", "LOCKSTEP_KEPT_MEMORY=1", "echo"},
                2,
                "--env LOCKSTEP_KEPT_MEMORY: the launcher"},
        BadCall{{"--stall-timeout", "nan", "echo"}, 2, "--stall-timeout is nan"},
        BadCall{{"--grace-period", "-1", "echo"}, 2, "--grace-period is -1"},
        BadCall{{"no-such-program"}, 127, "program 'no-such-program' was not found"},
        BadCall{{""}, 127, "program '' was not found"},
        BadCall{{"/etc/passwd"}, 126, "'/etc/passwd' is not executable"},
        BadCall{{"/"}, 126, "is a folder, expected a program"}));

TEST(RunOptionsTest, SaysWhyTheKernelRefusesAProgram) {
  const ScratchFolder folder;
  const auto broken = folder.write("broken", std::string("\x7f") + "ELF but not really", 0755);
  const auto result = lockstep({"run", "--num-instances", "3", broken});
  EXPECT_EQ(result.exit_code, 126);
  EXPECT_THAT(result.err, HasSubstr("broken' cannot be executed: Exec format error"));
}

TEST(RunOptionsTest, RunsAScriptWithoutAFirstLineOfItsOwn) {
  const ScratchFolder folder;
  const auto script = folder.write("script", "echo \"$0 got $1\"\n", 0755);
  EXPECT_EQ(lockstep({"run", script, "this"}).out, script + " got this\n");
}

TEST(RunOptionsTest, ShowsThePlacementAndStopsInADryRun) {
  const auto result =
      lockstep({"run", "--dry-run", "--host", "a:1,b", "--num-instances", "3", "--num-replicas",
                "7", "--devices-per-replica", "2", "--threads-per-device", "1", "--bind", "none"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("7 replicas in 3 instances on 2 hosts; 2 devices per replica, "
                                    "1 thread per device\n"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("a     0         0-2       .* any\n"
                                                   "b     1         3-4       .* any\n"
                                                   "b     2         5-6       .* any\n"));
}

TEST(RunOptionsTest, ShowsThePlacementBeforeTheJob) {
  const auto result =
      lockstep({"run", "--print-topology", "--ipus-per-replica", "2", "echo", "hi"});
  EXPECT_THAT(result.out, HasSubstr("1 replica in 1 instance on 1 host; 2 devices per replica"));
  EXPECT_THAT(result.out, ::testing::EndsWith("\nhi\n"));
}

TEST(RunOptionsTest, TakesThisHostByName) {
  const auto two = lockstep({"run", "--host", "localhost:2", "--num-instances", "2", "echo", "x"});
  EXPECT_EQ(sorted_lines(two.out), "[0] x\n[1] x\n");
  EXPECT_THAT(lockstep({"run", "--host", "localhost:2", "--num-instances", "3", "echo"}).err,
              HasSubstr("3 instances were asked for, but the hosts have 2 slots"));
}

TEST(RunOptionsTest, ReadsBackTheOptionsThatItWrote) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/job.toml";
  const auto first = lockstep({"run", "--num-instances", "2", "--num-replicas", "5", "--env",
                               "WORD=a b", "--env", "OTHER=c", "--tag-output", "mpi",
                               "--export-config", file, "sh", "-c", "echo $WORD $OTHER"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  const auto again = lockstep({"run", "--config", file, "sh", "-c", "echo $WORD $OTHER"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  for (const auto* line : {"[1,0]<stdout>:a b c\n", "[1,1]<stdout>:a b c\n"}) {
    EXPECT_THAT(first.out, HasSubstr(line));
    EXPECT_THAT(again.out, HasSubstr(line));
  }
}

TEST(RunOptionsTest, RefusesToExportWhatItCouldNotReadBack) {
  const ScratchFolder folder;
  for (const auto* value : {"A=two\nlines", "A=it's \"so\""}) {
    const auto result =
        lockstep({"run", "--env", value, "--export-config", folder.path() + "/job.toml", "true"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--env holds a line feed or both kinds of quotes"));
  }
  EXPECT_TRUE(folder.is_empty());
}

TEST(RunOptionsTest, LetsTheCommandLineWinOverTheConfig) {
  const ScratchFolder folder;
  const auto file = folder.write("job.toml", "num-instances=3\nnum-replicas=6\n");
  EXPECT_EQ(lockstep({"run", "--config", file, "--num-instances", "1", "sh", "-c",
                      "echo $LOCKSTEP_NUM_INSTANCES $LOCKSTEP_NUM_REPLICAS"})
                .out,
            "1 6\n");
}

TEST(RunOptionsTest, RefusesAConfigWithAnUnknownOption) {
  const ScratchFolder folder;
  const auto file = folder.write("job.toml", "num-instance=3\n");
  const auto result = lockstep({"run", "--config", file, "true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("num-instance"));
}

TEST(RunOptionsTest, SaysWhatItStartsWhenVerbose) {
  const auto result = lockstep({"run", "-v", "--bind", "none", "true"});
  EXPECT_THAT(result.err,
              ::testing::ContainsRegex(
                  "lockstep: instance 0 started on host [^ ]+, pid [0-9]+, on any CPU\n"));
}

}  // namespace
}  // namespace lockstep::testing
