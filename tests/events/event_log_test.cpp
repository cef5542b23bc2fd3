#include "lockstep/events/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::events {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using testing::ScratchFolder;

class EventLogTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_.path() + "/events.jsonl";
};

TEST_F(EventLogTest, WritesALineWithTheTimeOfEachEvent) {
  EventLog(path_).write({.event = "death",
                         .instance = 2,
                         .step = 120,
                         .more = {{"signal", "SIGKILL"}, {"seconds", 1.5}, {"pid", 7}}});
  EXPECT_THAT(read_file(path_),
              ContainsRegex("^\\{\"time\":\"20[0-9-]{8}T[0-9:]{8}\\.[0-9]{3}Z\",\"unix\":[0-9.]+,"
                            "\"event\":\"death\",\"instance\":2,\"step\":120,"
                            "\"signal\":\"SIGKILL\",\"seconds\":1.5,\"pid\":7\\}\n$"));
}

TEST_F(EventLogTest, ReadsBackWhatItWrote) {
  const EventLog log(path_);
  log.write({.event = "restart", .more = {{"number", 1}}});
  log.write({.event = "stall", .instance = 0, .step = 0, .more = {{"what", "a\n\"b\" \xff"}}});
  const auto entries = read_event_log(path_);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].event, "restart");
  EXPECT_FALSE(entries[0].instance || entries[0].step);
  EXPECT_EQ(entries[0].more.back(), (std::pair<std::string, LogEntry::Value>{"number", 1}));
  EXPECT_EQ(entries[1].instance, 0);
  EXPECT_EQ(entries[1].step, 0);
  // What is no UTF-8 is replaced.
  EXPECT_EQ(std::get<std::string>(entries[1].more.back().second), "a\n\"b\" \xef\xbf\xbd");
  EXPECT_EQ(entries[1].more.front().first, "time");
}

TEST_F(EventLogTest, LeavesOutLinesThatACrashHasCut) {
  folder_.write("events.jsonl",
                "{\"event\":\"start\"}\n{\"event\":\"dea\n[1]\n{\"no\":1}\n{\"event\":\"end\"}\n{");
  const auto entries = read_event_log(path_);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1].event, "end");
}

TEST_F(EventLogTest, KeepsLinesOfSeveralWritersWhole) {
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      const EventLog log(path_);
      for (int k = 0; k < 200; ++k) {
        log.write({.event = "stall", .instance = i, .more = {{"what", std::string(500, 'x')}}});
      }
    });
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(read_event_log(path_).size(), 800U);
}

TEST_F(EventLogTest, NamesAFileThatCannotBeOpened) {
  testing::expect_error([] { const EventLog log("/nowhere/events.jsonl"); }, ErrorKind::Io,
                        "event log: /nowhere/events.jsonl: No such file");
}

TEST_F(EventLogTest, IsOpenedOrWarnedOf) {
  std::string warned;
  const auto warn = [&](const std::string& text) { warned += text; };
  open_event_log(path_, warn).write({.event = "resume"});
  ASSERT_EQ(read_event_log(path_).size(), 1U);
  EXPECT_EQ(read_event_log(path_)[0].event, "resume");
  open_event_log(std::nullopt, warn).write({.event = "resume"});
  EXPECT_EQ(warned, "");
  open_event_log("/nowhere/events.jsonl", warn).write({.event = "resume"});
  EXPECT_THAT(warned, ::testing::StartsWith("event log: /nowhere/events.jsonl: No such file"));
  open_event_log("/nowhere/events.jsonl", {}).write({.event = "resume"});
}

TEST_F(EventLogTest, SaysNothingWhereNobodyReads) {
  const EventLog nobody;
  nobody.write({.event = "start"});
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const EventLog full("/dev/full");
  full.write({.event = "start"});
  full.write({.event = "start"});
}

}  // namespace
}  // namespace lockstep::events
