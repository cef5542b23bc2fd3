#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "lockstep/events/event_log.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

/// What a job keeps when the launcher starts it again, and what it says of it.
namespace lockstep::testing {
namespace {

using events::LogEntry;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// `lockstep run` with four replicas of `comm_worker train`.
Finished train(std::vector<std::string> options, const std::vector<std::string>& worker) {
  options.insert(options.begin(), {"run", "--num-replicas", "4"});
  options.insert(options.end(), {COMM_WORKER_BINARY, "train"});
  options.insert(options.end(), worker.begin(), worker.end());
  const auto mark = unique_mark("recovery");
  auto result = lockstep(options, {.environment = {{"LOCKSTEP_TEST_MARK", mark}}});
  EXPECT_TRUE(processes_with("LOCKSTEP_TEST_MARK=" + mark).empty());
  return result;
}

/// "digest … after step …"
std::string digest_line(const Finished& result) {
  const auto begin = result.out.find("digest ");
  if (begin == std::string::npos) return "none: " + result.out + result.err;
  return result.out.substr(begin, result.out.find('\n', begin) - begin);
}

std::string undisturbed(const std::string& steps) {
  const auto result = train({"--num-instances", "2"}, {steps, "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(digest_line(result), ContainsRegex("^digest [0-9a-f]{16} after step " + steps + "$"));
  return digest_line(result);
}

std::vector<LogEntry> entries(const std::vector<LogEntry>& log, const std::string& event) {
  std::vector<LogEntry> found;
  std::ranges::copy_if(log, std::back_inserter(found),
                       [&](const LogEntry& entry) { return entry.event == event; });
  return found;
}

std::string text_in(const LogEntry& entry, const std::string& name) {
  for (const auto& [key, value] : entry.more) {
    const auto* text = std::get_if<std::string>(&value);
    if (key == name && text != nullptr) return *text;
  }
  return "";
}

std::int64_t number_in(const LogEntry& entry, const std::string& name) {
  for (const auto& [key, value] : entry.more) {
    const auto* number = std::get_if<std::int64_t>(&value);
    if (key == name && number != nullptr) return *number;
  }
  return -1;
}

TEST(RunRecoveryTest, GoesOnAfterTheLastCommittedStep) {
  const ScratchFolder folder;
  const auto result = train({"--num-instances", "3", "--max-restarts", "5", "--grace-period", "50",
                             "--log-dir", folder.path()},
                            {"12", "0", "0:5:1:kill", "1:9:0:kill", "2:9:2:3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[0] goes on after step 4\n"));
  EXPECT_THAT(result.out, HasSubstr("[0] goes on after step 8\n"));
  EXPECT_EQ(digest_line(result), undisturbed("12"));
  EXPECT_THAT(result.err, HasSubstr("starting the job again after step 4: restart 1 of 5\n"));
  // Nobody had to be waited for: what they would save was safe.
  EXPECT_THAT(result.err, Not(HasSubstr("SIGTERM")));
  EXPECT_THAT(result.err, HasSubstr("lockstep: 3 restarts: instance 1 killed by SIGKILL at step 4, "
                                    "instance 0 killed by SIGKILL at step 8, instance 2 exit code "
                                    "3 at step 8\n"));

  const auto log = events::read_event_log(folder.path() + "/events.jsonl");
  const auto starts = entries(log, "start");
  ASSERT_EQ(starts.size(), 12U);
  EXPECT_EQ(starts[0].step, std::nullopt);
  EXPECT_EQ(starts[3].step, 4);
  EXPECT_EQ(starts[6].step, 8);
  EXPECT_EQ(entries(log, "death").size(), 12U);
  const auto failures = entries(log, "failure");
  ASSERT_EQ(failures.size(), 3U);
  EXPECT_EQ(failures[0].instance, 1);
  EXPECT_EQ(failures[0].step, 4);
  EXPECT_EQ(text_in(failures[0], "signal"), "SIGKILL");
  EXPECT_EQ(number_in(failures[2], "exit_code"), 3);
  const auto restarts = entries(log, "restart");
  ASSERT_EQ(restarts.size(), 3U);
  EXPECT_EQ(restarts[0].instance, 1);
  EXPECT_EQ(restarts[1].instance, 0);
  EXPECT_EQ(restarts[2].instance, 2);
  EXPECT_EQ(restarts[1].step, 8);
  EXPECT_EQ(number_in(restarts[1], "number"), 2);
  EXPECT_EQ(number_in(starts.back(), "attempt"), 3);
  EXPECT_EQ(log.back().event, "end");
  EXPECT_EQ(number_in(log.back(), "exit_code"), 0);
  EXPECT_EQ(number_in(log.back(), "restarts"), 3);
  EXPECT_EQ(log.back().step, 12);
}

TEST(RunRecoveryTest, AnInstanceThatIsAloneGoesOnToo) {
  const auto result = train({"--max-restarts", "1"}, {"6", "0", "0:3:0:kill"});
  EXPECT_THAT(result.out, HasSubstr("goes on after step 2\n"));
  EXPECT_EQ(digest_line(result), undisturbed("6"));
}

TEST(RunRecoveryTest, GivesUpAnInstanceThatIsStoppedAndGoesOn) {
  const ScratchFolder folder;
  const auto result = train({"--num-instances", "2", "--max-restarts", "1", "--stall-timeout", "5",
                             "--log-dir", folder.path()},
                            {"6", "0", "0:3:1:stop"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(digest_line(result), undisturbed("6"));
  const auto stalls = entries(events::read_event_log(folder.path() + "/events.jsonl"), "stall");
  ASSERT_FALSE(stalls.empty());
  EXPECT_EQ(stalls[0].instance, 1);
  EXPECT_EQ(stalls[0].step, 2);
  EXPECT_THAT(result.err, HasSubstr("1 stall (instance 1)"));
}

TEST(RunRecoveryTest, GoesOnWithFewerInstancesWhereOneFailsAgainAndAgain) {
  const ScratchFolder folder;
  const auto result = train({"--num-instances", "3", "--max-restarts", "3", "--shrink", "--bind",
                             "none", "--log-dir", folder.path()},
                            {"8", "0", "0:2:2:kill", "1:4:2:kill"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("lockstep: instance 2 failed 2 times in a row: going on with 2 "
                                    "instances\nlockstep: starting the job again after step 3: "
                                    "restart 2 of 3\n"));
  EXPECT_EQ(digest_line(result), undisturbed("8"));
  const auto log = events::read_event_log(folder.path() + "/events.jsonl");
  EXPECT_EQ(entries(log, "start").size(), 3U + 3U + 2U);
  ASSERT_EQ(entries(log, "shrink").size(), 1U);
  EXPECT_EQ(entries(log, "shrink")[0].instance, 2);
  EXPECT_EQ(number_in(entries(log, "shrink")[0], "instances"), 2);
}

TEST(RunRecoveryTest, BlamesWhoWasLateNotWhoGaveItUp) {
  const ScratchFolder folder;
  const auto result = train({"--num-instances", "3", "--max-restarts", "3", "--shrink",
                             "--stall-timeout", "5", "--log-dir", folder.path()},
                            {"8", "0", "0:2:1:stop", "1:4:1:stop"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("lockstep: instance 1 failed 2 times in a row"));
  const auto restarts = entries(events::read_event_log(folder.path() + "/events.jsonl"), "restart");
  ASSERT_EQ(restarts.size(), 2U);
  for (const auto& restart : restarts) EXPECT_EQ(restart.instance, 1);
  EXPECT_EQ(digest_line(result), undisturbed("8"));
}

TEST(RunRecoveryTest, DoesNotShrinkForFailuresOfDifferentInstancesNorBelowOne) {
  const auto result = train({"--num-instances", "2", "--max-restarts", "5", "--shrink"},
                            {"8", "0", "0:2:1:kill", "1:4:0:kill", "2:5:1:kill"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("in a row")));
  const auto alone = lockstep(shell({"--max-restarts", "3", "--shrink"}, "exit 3"));
  EXPECT_EQ(alone.exit_code, 3);
  EXPECT_THAT(alone.err, Not(HasSubstr("in a row")));
}

TEST(RunRecoveryTest, EndsAsUndisturbedThoughChaosReigns) {
  const ScratchFolder folder;
  // An instance starts in far less than the stall timeout and the mean time between failures. The
  // training needs two seconds without faults. With this seed, faults of all kinds come before.
  const auto result = train({"--num-instances", "3", "--max-restarts", "1000", "--stall-timeout",
                             "2", "--chaos", "330,mtbf=1", "--log-dir", folder.path()},
                            {"200", "10"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(digest_line(result), undisturbed("200"));
  const auto log = events::read_event_log(folder.path() + "/events.jsonl");
  std::set<std::string> kinds;
  for (const auto& fault : entries(log, "chaos")) {
    const auto kind = text_in(fault, "kind");
    EXPECT_EQ(text_in(fault, "signal"), kind == "kill" ? "SIGKILL" : "SIGSTOP");
    kinds.insert(kind);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"kill", "slow", "stop"}));
  EXPECT_THAT(result.err, ContainsRegex("lockstep: chaos: SIG[A-Z]+ to instance [0-2]"));
  EXPECT_THAT(result.err, ContainsRegex("lockstep: [0-9]+ faults? injected"));
}

TEST(RunRecoveryTest, AJobThatClosesWhatItInheritsIsWarnedAndWorks) {
  const auto result = lockstep(
      shell({"--num-instances", "2", "--num-replicas", "4"},
            "eval \"exec $LOCKSTEP_KEPT_MEMORY>&-\"; exec " COMM_WORKER_BINARY " train 6 0"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, ContainsRegex("warning: kept memory: descriptor [0-9]+ is not the memory "
                                        "of this job: a restart will not find what this attempt"));
  EXPECT_EQ(digest_line(result), undisturbed("6"));
}

TEST(RunRecoveryTest, AJobWithinAJobHasItsOwnMemory) {
  const auto list = "echo memory $LOCKSTEP_KEPT_MEMORY; ls -l /proc/$$/fd";
  const auto result = lockstep({"run", LOCKSTEP_BINARY, "run", "sh", "-c", list});
  std::size_t memories = 0;
  for (auto at = result.out.find("lockstep-kept"); at != std::string::npos;
       at = result.out.find("lockstep-kept", at + 1)) {
    ++memories;
  }
  EXPECT_EQ(memories, 1U) << result.out;
  const auto number = result.out.substr(7, result.out.find('\n') - 7);
  EXPECT_THAT(result.out, HasSubstr(" " + number + " -> /memfd:lockstep-kept"));
}

TEST(RunRecoveryTest, KeepsTheMemoryNoLongerThanTheJob) {
  Subprocess job(lockstep_command({"run", "sh", "-c", "echo up; exec sleep 60"}));
  ASSERT_TRUE(job.wait_for("up\n"));
  // The process that outlives the supervisor does not have it.
  std::error_code ignored;
  for (const auto& file :
       std::filesystem::directory_iterator("/proc/" + std::to_string(job.pid()) + "/fd")) {
    EXPECT_THAT(std::filesystem::read_symlink(file, ignored).string(), Not(HasSubstr("kept")));
  }
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(30s).exit_code, 128 + SIGTERM);
}

TEST(RunRecoveryTest, ReplacesTheLogOfTheJobBefore) {
  const ScratchFolder folder;
  for (int i = 0; i < 2; ++i) {
    lockstep(shell({"--log-dir", folder.path()}, "echo $LOCKSTEP_EVENTS > $LOCKSTEP_EVENTS.name"));
  }
  const auto path = folder.path() + "/events.jsonl";
  EXPECT_EQ(read_file(path + ".name"), std::filesystem::absolute(path).string() + "\n");
  EXPECT_EQ(entries(events::read_event_log(path), "start").size(), 1U);
  EXPECT_THAT(lockstep(shell({}, "echo $LOCKSTEP_EVENTS")).out,
              ::testing::MatchesRegex("/.*/[0-9a-f]+/events.jsonl\n"));
}

TEST(RunRecoveryTest, NamesALogThatCannotBeWritten) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() + "/events.jsonl/in the way");
  const auto result = lockstep(shell({"--log-dir", folder.path()}, "echo up"));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("event log: " + folder.path() + "/events.jsonl: Is a dir"));
}

TEST(RunRecoveryTest, WritesDownWhoKeptOthersWaiting) {
  const ScratchFolder folder;
  const auto result = lockstep({"run", "--num-instances", "2", "--stall-timeout", "5", "--log-dir",
                                folder.path(), COMM_WORKER_BINARY, "late", "60", "silent"});
  EXPECT_EQ(result.exit_code, 6);
  const auto stalls = entries(events::read_event_log(folder.path() + "/events.jsonl"), "stall");
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_EQ(stalls[0].instance, 1);
  EXPECT_EQ(stalls[0].step, std::nullopt);
  EXPECT_EQ(text_in(stalls[0], "kind"), "overdue");
  EXPECT_THAT(text_in(stalls[0], "what"), HasSubstr("all_reduce #2 \"layer3\": instance 1"));
}

TEST(RunRecoveryTest, SaysNothingOfARestartWhenQuiet) {
  const auto result = lockstep(shell({"-q", "--max-restarts", "1"}, "exit $((9 * !RANK))"));
  EXPECT_THAT(result.err, Not(HasSubstr("1 restart:")));
}

TEST(RunRecoveryTest, WritesDownHowAJobWasInterruptedAndWhatItLeft) {
  const ScratchFolder folder;
  Subprocess job(lockstep_command(shell({"--log-dir", folder.path()}, "echo up; exec sleep 60")));
  ASSERT_TRUE(job.wait_for("up\n"));
  job.signal(SIGTERM);
  job.wait(30s);
  const auto path = folder.path() + "/events.jsonl";
  auto log = events::read_event_log(path);
  ASSERT_EQ(entries(log, "interrupted").size(), 1U);
  EXPECT_EQ(text_in(entries(log, "interrupted")[0], "signal"), "SIGTERM");
  EXPECT_EQ(number_in(log.back(), "exit_code"), 128 + SIGTERM);

  lockstep(shell({"--log-dir", folder.path()}, "setsid sleep 61 &"));
  log = events::read_event_log(path);
  ASSERT_EQ(entries(log, "leftovers").size(), 1U);
  EXPECT_THAT(text_in(entries(log, "leftovers")[0], "processes"), HasSubstr("(pid "));
}

}  // namespace
}  // namespace lockstep::testing
