#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The lines of each instance, with their tags taken off, in the order in which they came.
std::map<std::string, std::string> by_tag(const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const auto end = line.find("] ");
    lines[line.substr(0, end + 1)] += line.substr(end + 2) + '\n';
  }
  return lines;
}

std::string numbers(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += std::to_string(i) + '\n';
  return text;
}

TEST(RunOutputTest, PrintsALineOfEachInstanceWithItsTag) {
  auto result = lockstep({"run", "--num-replicas", "8", "--num-instances", "4", "echo", "hi"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(by_tag(result.out),
            (std::map<std::string, std::string>{
                {"[0]", "hi\n"}, {"[1]", "hi\n"}, {"[2]", "hi\n"}, {"[3]", "hi\n"}}));
}

TEST(RunOutputTest, KeepsStdoutAndStderrApart) {
  const auto result = lockstep(shell({"--num-instances", "2"}, "echo out; echo err >&2"));
  EXPECT_EQ(by_tag(result.out)["[1]"], "out\n");
  EXPECT_EQ(by_tag(result.err)["[1]"], "err\n");
}

TEST(RunOutputTest, PassesAMillionLinesInOrderAndWholeInUnderTwoSecondsOfCpuTime) {
  const bool sanitized = lockstep({"doctor"}).out.find("sanitizers  none") == std::string::npos;
  const auto expected = numbers(250000);
  auto fastest = std::chrono::duration<double>(1000);
  // The fastest of five, because other processes evict these from the processor's caches.
  for (int round = 0; round < (sanitized ? 1 : 5) && fastest >= 2s; ++round) {
    const auto result = lockstep({"run", "--num-instances", "4", "seq", "250000"});
    EXPECT_EQ(result.exit_code, 0);
    const auto lines = by_tag(result.out);
    ASSERT_EQ(lines.size(), 4U);
    for (const auto& [tag, text] : lines) EXPECT_TRUE(text == expected) << tag;
    fastest = std::min(fastest, result.cpu_time);
  }
  EXPECT_TRUE(sanitized || fastest < 2s) << fastest.count() << " s";
}

TEST(RunOutputTest, KeepsLinesWholeWhereBothStreamsLeadToOneSlowReader) {
  const auto result =
      run({"sh", "-c",
           std::string(LOCKSTEP_BINARY) +
               " run --num-instances 2 sh -c 'i=0; while [ $i -lt 1500 ]; do echo " +
               std::string(150, 'x') + "; echo " + std::string(150, 'x') +
               " >&2; i=$((i+1)); done' 2>&1 | dd bs=4k 2>/dev/null"});
  std::istringstream stream(result.out);
  int lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) ASSERT_EQ(line.size(), 154U) << line;
  EXPECT_EQ(lines, 6000);
}

TEST(RunOutputTest, WaitsForASlowReaderWithoutSpinning) {
  Subprocess job(
      lockstep_command({"run", "--grace-period", "0.1", "--num-instances", "2", "seq", "40000"}));
  EXPECT_FALSE(job.wait_for_exit(2s));  // nobody reads
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(by_tag(result.out)["[1]"], numbers(40000));
  EXPECT_LT(result.cpu_time, 1s);
}

TEST(RunOutputTest, NeverMixesLinesThatAreWrittenInPieces) {
  const auto result = lockstep(
      shell({"--num-instances", "4"},
            "i=0; while [ $i -lt 200 ]; do printf 'ab'; printf 'cd\\n'; i=$((i+1)); done"));
  const auto lines = by_tag(result.out);
  ASSERT_EQ(lines.size(), 4U);
  for (const auto& [tag, text] : lines) {
    EXPECT_EQ(text.size(), 1000U) << tag;
    EXPECT_THAT(text, Not(HasSubstr("ab\n")));
  }
}

TEST(RunOutputTest, HasNoLimitOnTheLengthOfALine) {
  const auto result =
      lockstep(shell({"--num-instances", "2"}, "head -c 20000000 /dev/zero | tr '\\0' x; echo"));
  for (const auto& [tag, text] : by_tag(result.out)) EXPECT_EQ(text.size(), 20'000'001U) << tag;
}

TEST(RunOutputTest, EndsALastLineThatTheProgramDidNotEnd) {
  EXPECT_EQ(lockstep(shell({"--num-instances", "2"}, "test $RANK = 1 && printf end; true")).out,
            "[1] end\n");
}

TEST(RunOutputTest, PassesBytesUntouchedForOneInstanceWithoutTags) {
  const auto result = lockstep(shell({"--tag-output", "never"}, "printf 'a\\r\\000b\\rc'"));
  EXPECT_EQ(result.out, std::string("a\r\0b\rc", 6));
}

TEST(RunOutputTest, PassesBytesUntouchedForOneInstanceOnATerminal) {
  Subprocess job(lockstep_command(shell({}, "printf 'Name? '; sleep 1; printf '\\rbar'")),
                 {.terminal = true});
  ASSERT_TRUE(job.wait_for("Name? ", 30s));
  EXPECT_EQ(job.wait().out, "Name? \rbar");
}

TEST(RunOutputTest, RunsWhereItsStandardStreamsAreClosed) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/ran";
  const auto result =
      run({"sh", "-c",
           std::string(LOCKSTEP_BINARY) +
               " run --num-instances 2 sh -c 'echo out; echo err >&2; echo ran >> " + file +
               "' <&- >&- 2>&-"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(read_file(file), "ran\nran\n");
}

TEST(RunOutputTest, CarriesMoreInstancesThanTheLimitOnOpenFilesSuggests) {
  const auto result = run({"sh", "-c",
                           "ulimit -Sn 64; exec " + std::string(LOCKSTEP_BINARY) +
                               " run --num-instances 100 sh -c 'ulimit -Sn'"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(by_tag(result.out).size(), 100U);
  EXPECT_EQ(by_tag(result.out)["[99]"], "64\n");
}

TEST(RunOutputTest, TurnsProgressIntoPlainLinesWhereStdoutIsNoTerminal) {
  const auto result = lockstep(shell(
      {"--num-instances", "2"}, "for i in 1 2 3; do printf '\\r%s/3' $i; done; echo; echo end"));
  EXPECT_EQ(by_tag(result.out)["[0]"], "3/3\nend\n");
  EXPECT_EQ(by_tag(result.out)["[1]"], "3/3\nend\n");
}

TEST(RunOutputTest, WritesProgressNowAndThenWhereStdoutIsNoTerminal) {
  Subprocess job(lockstep_command(
      shell({"--num-instances", "2"}, "while :; do printf '\\rstep'; sleep 0.1; done")));
  ASSERT_TRUE(job.wait_for("[0] step\n", 30s));
  job.signal(SIGTERM);
  const auto out = job.wait().out;
  EXPECT_LT(std::count(out.begin(), out.end(), '\n'), 5);
}

TEST(RunOutputTest, KeepsTheProgressLineOfInstanceZeroOnATerminal) {
  const ScratchFolder folder;
  Subprocess job(lockstep_command(shell(
                     {"--num-instances", "2"},
                     "cd " + folder.path() +
                         "; if [ $RANK = 0 ]; then printf '\\r50%%' >&2; "
                         "while [ ! -e finish ]; do sleep 0.01; done; printf '\\r100%%\\n' >&2; "
                         "else while [ ! -e speak ]; do sleep 0.01; done; echo hello; fi")),
                 {.terminal = true});
  ASSERT_TRUE(job.wait_for("\r\x1b[K[0] 50%"));
  folder.write("speak", "");
  ASSERT_TRUE(job.wait_for("\r\x1b[K[1] hello\r\n\r\x1b[K[0] 50%"));
  folder.write("finish", "");
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\r\x1b[K[0] 100%\r\n"));
}

TEST(RunOutputTest, ShowsOneInstanceAlone) {
  EXPECT_EQ(
      lockstep(shell({"--num-instances", "4", "--only-output-from-instance", "2"}, "echo $RANK"))
          .out,
      "[2] 2\n");
}

TEST(RunOutputTest, ReportsTheFailureOfAnInstanceWhoseOutputIsHidden) {
  const auto result = lockstep(shell({"--num-instances", "2", "--only-output-from-instance", "0"},
                                     "test $RANK = 0 && sleep 60; echo hidden reason >&2; exit 9"));
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_THAT(result.err, HasSubstr("  | hidden reason\n"));
}

TEST(RunOutputTest, WritesAFileForEachInstanceAndStream) {
  const ScratchFolder folder;
  const auto logs = folder.path() + "/deep/logs";
  const auto result = lockstep(
      shell({"--num-instances", "2", "--log-dir", logs}, "echo out$RANK; printf 'a\\rb\\n' >&2"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read_file(logs + "/instance-0.stdout"), "out0\n");
  EXPECT_EQ(read_file(logs + "/instance-1.stdout"), "out1\n");
  EXPECT_EQ(read_file(logs + "/instance-1.stderr"), "a\rb\n");
  EXPECT_THAT(result.out, HasSubstr("[1] out1\n"));
}

TEST(RunOutputTest, ReplacesTheLogsOfAnEarlierJobAndKeepsThoseOfRestarts) {
  const ScratchFolder folder;
  folder.write("instance-0.stdout", "old\n");
  lockstep(shell({"--max-restarts", "1", "--log-dir", folder.path()},
                 "echo try $LOCKSTEP_RESTART_COUNT; exit 1"));
  EXPECT_EQ(read_file(folder.path() + "/instance-0.stdout"), "try 0\ntry 1\n");
}

TEST(RunOutputTest, GoesOnWhereALogCannotBeWritten) {
  const ScratchFolder folder;
  run({"ln", "-s", "/dev/full", folder.path() + "/instance-0.stdout"});
  const auto result =
      lockstep(shell({"--log-dir", folder.path()}, "echo one; sleep 0.2; echo two"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "one\ntwo\n");
  EXPECT_THAT(result.err, HasSubstr("warning: --log-dir: instance 0: No space left on device"));
}

TEST(RunOutputTest, EndsTheJobQuietlyWhenItsReaderIsGone) {
  Subprocess job(lockstep_command({"run", "--num-instances", "2", "yes"}));
  ASSERT_TRUE(job.wait_for("[0] y\n"));
  job.close_stdout();
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(result.err, "");
}

TEST(RunOutputTest, SaysSoWhenStandardOutputIsFull) {
  const auto result = run({"sh", "-c", std::string(LOCKSTEP_BINARY) + " run yes > /dev/full"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("standard output cannot be written: No space left on device"));
}

TEST(RunOutputTest, CanBeInterruptedInOneGracePeriodWhileItsReaderIsStopped) {
  auto fastest = std::chrono::duration<double>(1000);
  // The fastest of five, because the machine may be busy. A job ends after one grace period, not
  // after two.
  for (int round = 0; round < 5 && fastest >= 2s; ++round) {
    Subprocess job(lockstep_command({"run", "--num-instances", "2", "--grace-period", "1", "yes"}));
    ASSERT_TRUE(job.wait_for("[0] y\n"));  // and nobody reads on
    const auto begin = std::chrono::steady_clock::now();
    job.signal(SIGINT);
    ASSERT_TRUE(job.wait_for_exit(20s));
    fastest =
        std::min<std::chrono::duration<double>>(fastest, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_LT(fastest, 2s);
}

}  // namespace
}  // namespace lockstep::testing
