#include "lockstep/ui/job_console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/socket.h>
#include <termios.h>

#include <array>
#include <cerrno>

#include "lockstep/events/job_summary.h"

namespace lockstep::ui {
namespace {

using events::InstanceOutput;
using events::Stream;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string read_available(const UniqueFd& fd) {
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  std::string text;
  std::array<char, 4096> block;
  ssize_t count = 0;
  while ((count = ::read(fd.get(), block.data(), block.size())) > 0) {
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// A console on two pipes.
class JobConsoleTest : public ::testing::Test {
 protected:
  JobConsole make(const ConsoleOptions& options) {
    return {options, out_.write_end.get(), err_.write_end.get()};
  }
  std::string out() const { return read_available(out_.read_end); }
  std::string err() const { return read_available(err_.read_end); }

  Pipe out_ = make_pipe();
  Pipe err_ = make_pipe();
};

TEST_F(JobConsoleTest, TagsEveryLineAndKeepsTheStreamsApart) {
  auto console = make({.num_instances = 2});
  console.on(InstanceOutput{1, Stream::Stdout, "a\nb\n", ""});
  console.on(InstanceOutput{0, Stream::Stderr, "c\n", ""});
  EXPECT_EQ(out(), "[1] a\n[1] b\n");
  EXPECT_EQ(err(), "[0] c\n");
}

TEST_F(JobConsoleTest, TagsAsItIsTold) {
  const std::pair<ConsoleOptions, const char*> cases[] = {
      {{.num_instances = 1}, "x\n"},
      {{.num_instances = 1, .tags = TagStyle::Always}, "[0] x\n"},
      {{.num_instances = 4, .tags = TagStyle::Never}, "x\n"},
      {{.num_instances = 1, .tags = TagStyle::Mpi}, "[1,0]<stdout>:x\n"}};
  for (const auto& [options, expected] : cases) {
    make(options).on(InstanceOutput{0, Stream::Stdout, "x\n", ""});
    EXPECT_EQ(out(), expected);
  }
}

TEST_F(JobConsoleTest, TellsOfRestartsShrinkingAndFaults) {
  auto console = make({.num_instances = 4});
  console.on(events::JobRestarting{.restart = 1, .max_restarts = 3});
  console.on(events::JobRestarting{.restart = 2, .max_restarts = 3, .step = 120});
  console.on(
      events::JobShrunk{.instance = 2, .failures = 2, .num_instances = 3, .without_cores = {2, 3}});
  console.on(events::JobShrunk{.instance = 1, .failures = 2, .num_instances = 1});
  console.on(
      events::JobShrunk{.instance = 1, .failures = 2, .num_instances = 2, .without_cores = {7}});
  console.on(events::FaultInjected{.instance = 2, .kind = "kill", .signal = SIGKILL});
  console.on(events::FaultInjected{
      .instance = 1, .kind = "slow", .signal = SIGSTOP, .duration = events::Seconds(0.74)});
  EXPECT_EQ(err(),
            "lockstep: starting the job again: restart 1 of 3\n"
            "lockstep: starting the job again after step 120: restart 2 of 3\n"
            "lockstep: instance 2 failed 2 times in a row: going on with 3 instances, without "
            "cores 2-3\n"
            "lockstep: instance 1 failed 2 times in a row: going on with 1 instance\n"
            "lockstep: instance 1 failed 2 times in a row: going on with 2 instances, without core "
            "7\n"
            "lockstep: chaos: SIGKILL to instance 2\n"
            "lockstep: chaos: SIGSTOP to instance 1 for 0.7 s\n");
}

TEST_F(JobConsoleTest, SumsUpOnlyWhereItMaySpeakAndHasSomethingToSay) {
  events::JobSummary summary;
  make({}).on(summary);
  EXPECT_EQ(err(), "");
  summary.faults = 2;
  make({}).on(summary);
  EXPECT_EQ(err(), "lockstep: 2 faults injected, 0.0 s\n");
  make({.verbosity = Verbosity::Quiet}).on(summary);
  EXPECT_EQ(err(), "");
}

TEST_F(JobConsoleTest, HidesAllButOneInstance) {
  auto console = make({.num_instances = 2, .only_instance = 1});
  console.on(InstanceOutput{0, Stream::Stdout, "zero\n", ""});
  console.on(InstanceOutput{1, Stream::Stdout, "one\n", ""});
  EXPECT_EQ(out(), "[1] one\n");
}

TEST_F(JobConsoleTest, DoesNotWriteEveryProgressIntoAFile) {
  auto console = make({.num_instances = 2});
  for (int i = 0; i < 1000; ++i) console.on(InstanceOutput{0, Stream::Stdout, "", "50%"});
  EXPECT_EQ(out(), "");
  console.on(InstanceOutput{0, Stream::Stdout, "100%\n", ""});
  EXPECT_EQ(out(), "[0] 100%\n");
}

TEST_F(JobConsoleTest, KeepsWhatASlowReaderDoesNotTakeAndLosesNothing) {
  auto console = make({.num_instances = 1});
  const std::string line = std::string(9999, 'x') + '\n';
  for (int i = 0; i < 100; ++i) console.on(InstanceOutput{0, Stream::Stdout, line, ""});
  EXPECT_THAT(console.blocked_on(), ::testing::SizeIs(1));
  std::string all;
  while (!console.blocked_on().empty()) {
    all += out();
    console.resume();
  }
  all += out();
  EXPECT_EQ(all.size(), 100 * line.size());
}

TEST_F(JobConsoleTest, WritesToASocketWithoutBlocking) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  JobConsole console({.num_instances = 1}, writer.get(), err_.write_end.get());
  console.on(InstanceOutput{0, Stream::Stdout, std::string(4'000'000, 'x') + "\n", ""});
  EXPECT_THAT(console.blocked_on(), Not(IsEmpty()));
  EXPECT_THAT(read_available(reader), HasSubstr("xxx"));
}

TEST_F(JobConsoleTest, WritesToAPipeOfAnotherUserWithoutBlocking) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(::seteuid(65534), 0);
  auto console = make({.num_instances = 1});
  ASSERT_EQ(::seteuid(0), 0);
  const std::string text = std::string(300'000, 'x') + '\n';
  console.on(InstanceOutput{0, Stream::Stdout, text, ""});
  std::string all;
  EXPECT_THAT(console.blocked_on(), Not(IsEmpty()));
  while (!console.blocked_on().empty()) {
    all += out();
    console.resume();
  }
  EXPECT_EQ(all + out(), text);
}

TEST_F(JobConsoleTest, NoticesThatItsReaderIsGone) {
  ::signal(SIGPIPE, SIG_IGN);
  auto console = make({.num_instances = 1});
  EXPECT_EQ(console.output_error(), 0);
  out_.read_end.reset();
  console.on(InstanceOutput{0, Stream::Stdout, "x\n", ""});
  EXPECT_EQ(console.output_error(), EPIPE);
}

TEST_F(JobConsoleTest, KeepsLinesWholeWhereBothStreamsLeadToOnePipe) {
  const UniqueFd same(::dup(out_.write_end.get()));
  JobConsole console({.num_instances = 1}, out_.write_end.get(), same.get());
  const std::string line = std::string(150'000, 'x') + '\n';
  console.on(InstanceOutput{0, Stream::Stdout, line, ""});
  console.on(InstanceOutput{0, Stream::Stderr, "error\n", ""});
  std::string all;
  while (!console.blocked_on().empty()) {
    all += out();
    console.resume();
  }
  EXPECT_EQ(all + out(), line + "error\n");
}

TEST_F(JobConsoleTest, SaysWhatHappensToTheJob) {
  auto console = make({.num_instances = 2, .verbosity = Verbosity::Verbose});
  console.on(events::InstanceStarted{1, "a", 4711, {2, 3}});
  console.on(events::InstanceStarted{0, "a", 4710, {}});
  console.on(events::JobRestarting{1, 3});
  console.on(events::JobInterrupted{SIGINT, events::Seconds(5)});
  console.on(events::JobInterrupted{SIGINT, events::Seconds(0)});
  console.on(events::LeftoversEnded{{"sleep (pid 12)"}});
  console.on(events::Warning{"disk nearly full"});
  EXPECT_EQ(err(),
            "lockstep: instance 1 started on host a, pid 4711, on CPU 2-3\n"
            "lockstep: instance 0 started on host a, pid 4710, on any CPU\n"
            "lockstep: starting the job again: restart 1 of 3\n"
            "lockstep: SIGINT: ending the job; what is left after 5 s is killed\n"
            "lockstep: SIGINT: killing the job\n"
            "lockstep: all instances have ended; ending what they left running: sleep (pid 12)\n"
            "lockstep: warning: disk nearly full\n");
}

TEST_F(JobConsoleTest, SaysOnlyWhatMattersWhenQuiet) {
  auto console = make({.num_instances = 2, .verbosity = Verbosity::Quiet});
  console.on(events::InstanceStarted{1, "a", 4711, {}});
  console.on(events::JobInterrupted{SIGINT, events::Seconds(5)});
  console.on(events::LeftoversEnded{{"sleep (pid 12)"}});
  EXPECT_EQ(err(), "");
  console.on(events::Warning{"disk nearly full"});
  EXPECT_THAT(err(), HasSubstr("disk nearly full"));
}

TEST(DescribeFailureTest, NamesCauseAndLastLines) {
  events::InstanceFailed failure;
  failure.instance = 2;
  failure.host = "node7";
  failure.pid = 4711;
  failure.status = {.code = 3};
  failure.run_time = events::Seconds(12.34);
  failure.last_error_lines = {"Traceback", "  ValueError: x"};
  EXPECT_EQ(describe(failure),
            "lockstep: instance 2 failed: exit code 3, after 12.3 s (host node7, pid 4711)\n"
            "  its last lines on stderr:\n"
            "  | Traceback\n"
            "  |   ValueError: x\n");
}

TEST(DescribeFailureTest, ExplainsAKillThatNobodyMeant) {
  events::InstanceFailed failure;
  failure.status = {.signal = SIGKILL};
  EXPECT_THAT(describe(failure), HasSubstr("killed by SIGKILL"));
  EXPECT_THAT(describe(failure), HasSubstr("it wrote nothing to stderr"));
  EXPECT_THAT(describe(failure), HasSubstr("ran out of memory"));
}

TEST(DescribeFailureTest, ListsTheVictimsInOneLine) {
  const events::ExitStatus terminated{.signal = SIGTERM};
  EXPECT_EQ(
      describe(events::VictimsEnded{
          2, {{0, terminated}, {1, terminated}, {3, events::ExitStatus{.code = 7}}, {4, {}}}}),
      "lockstep: ended with instance 2: 3 (exit code 7), 0-1 (killed by SIGTERM), "
      "4 (still there)\n");
}

/// A console on a terminal of 20 columns.
class TerminalTest : public ::testing::Test {
 protected:
  TerminalTest() {
    winsize size{};
    size.ws_col = 20;
    size.ws_row = 5;
    int outside = -1;
    int inside = -1;
    if (::openpty(&outside, &inside, nullptr, nullptr, &size) != 0) std::abort();
    outside_.reset(outside);
    inside_.reset(inside);
    termios settings{};
    ::tcgetattr(inside, &settings);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    ::tcsetattr(inside, TCSANOW, &settings);
  }
  JobConsole make(const ConsoleOptions& options) { return {options, inside_.get(), inside_.get()}; }
  std::string screen() const { return read_available(outside_); }

  UniqueFd outside_;
  UniqueFd inside_;
};

constexpr const char* kErase = "\r\x1b[K";

TEST_F(TerminalTest, KeepsTheProgressOfInstanceZeroBelowTheLinesOfAll) {
  auto console = make({.num_instances = 2});
  console.on(InstanceOutput{0, Stream::Stderr, "", "10%"});
  EXPECT_EQ(screen(), std::string(kErase) + "[0] 10%");
  console.on(InstanceOutput{1, Stream::Stdout, "hello\n", ""});
  EXPECT_EQ(screen(), std::string(kErase) + "[1] hello\n" + kErase + "[0] 10%");
  console.on(InstanceOutput{0, Stream::Stderr, "100%\n", ""});
  EXPECT_EQ(screen(), std::string(kErase) + "[0] 100%\n");
  console.on(InstanceOutput{1, Stream::Stdout, "bye\n", ""});
  EXPECT_EQ(screen(), "[1] bye\n");
}

TEST_F(TerminalTest, ShowsNoProgressOfOtherInstances) {
  auto console = make({.num_instances = 2});
  console.on(InstanceOutput{1, Stream::Stderr, "", "10%"});
  EXPECT_EQ(screen(), "");
}

TEST_F(TerminalTest, TakesErasedProgressAway) {
  auto console = make({.num_instances = 1});
  console.on(InstanceOutput{0, Stream::Stdout, "", "10%"});
  console.on(InstanceOutput{0, Stream::Stdout, "", "   "});
  console.on(InstanceOutput{0, Stream::Stderr, "note\n", ""});
  EXPECT_EQ(screen(), std::string(kErase) + "10%" + kErase + "note\n");
}

TEST_F(TerminalTest, CutsProgressToTheWidthWithinNoCharacter) {
  auto console = make({.num_instances = 1});
  console.on(InstanceOutput{0, Stream::Stderr, "", "50%|██████████████████████|"});
  EXPECT_EQ(screen(), std::string(kErase) + "50%|███████████████");
}

}  // namespace
}  // namespace lockstep::ui
