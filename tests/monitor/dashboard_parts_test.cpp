// What the dashboard's server is made of, without the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>

#include "lockstep/base/file.h"
#include "lockstep/monitor/web/access.h"
#include "lockstep/monitor/web/connection_table.h"
#include "lockstep/monitor/web/curve_history.h"
#include "lockstep/monitor/web/dashboard_server.h"
#include "lockstep/monitor/web/dashboard_state.h"
#include "tests/support/errors.h"
#include "tests/support/fake_job_feed.h"

namespace lockstep::monitor {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::expect_error;
using namespace std::chrono_literals;

TEST(AccessTest, KnowsLoopbackByItsNumbers) {
  for (const auto* address : {"127.0.0.1", "127.255.3.4", "::1"}) EXPECT_TRUE(is_loopback(address));
  for (const auto* address :
       {"0.0.0.0", "128.0.0.1", "::", "::2", "localhost", "", "127.0.0.1.evil.org"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

TEST(AccessTest, TakesItsOwnNamesAndAddressesOnly) {
  const std::vector<std::string> names{"Node-A"};
  for (const auto* host : {"localhost", "LOCALHOST:80", "127.0.0.1:8080", "10.1.2.3", "[::1]",
                           "[fe80::1]:9", "node-a:1"}) {
    EXPECT_TRUE(is_our_name(host, names)) << host;
  }
  for (const auto* host : {"", "evil.org", "evil.org:8080", "localhost.evil.org",
                           "127.0.0.1.evil.org", "localhost:x", "localhost:99999", "[::1", "[::1]x",
                           "[::1]:", "node-b", "node-a.", "localhost, evil.org"}) {
    EXPECT_FALSE(is_our_name(host, names)) << host;
  }
}

TEST(AccessTest, AcceptsTheTokenAloneAndEverybodyWithoutOne) {
  const TokenCheck check("0123456789abcdef");
  EXPECT_TRUE(check.is_needed() && check.accepts("0123456789abcdef"));
  for (const auto* wrong :
       {"", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0", "x123456789abcdef"}) {
    EXPECT_FALSE(check.accepts(wrong)) << wrong;
  }
  EXPECT_FALSE(TokenCheck().is_needed());
  EXPECT_TRUE(TokenCheck().accepts(""));
}

TEST(AccessTest, RefusesTokensThatCouldBeGuessedOrDoNotFitAUrl) {
  expect_error([] { TokenCheck("short"); }, ErrorKind::Options, "16 to 128 characters, found 5");
  expect_error([] { TokenCheck(std::string(129, 'a')); }, ErrorKind::Options, "found 129");
  expect_error([] { TokenCheck("0123456789abcde;"); }, ErrorKind::Options, "another character");
}

TEST(AccessTest, MakesTokensThatDiffer) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(make_token());
  EXPECT_EQ(tokens.size(), 100U);
  EXPECT_EQ(tokens.begin()->size(), 32U);
  EXPECT_TRUE(TokenCheck(*tokens.begin()).accepts(*tokens.begin()));
}

TEST(AccessTest, FindsACookieAmongOthers) {
  EXPECT_EQ(cookie("a=1; token_8=x=y;b=2", "token_8"), "x=y");
  EXPECT_EQ(cookie("token=", "token"), "");
  EXPECT_FALSE(cookie("token_80=1; xtoken_8=2; token_8", "token_8"));
  EXPECT_FALSE(cookie("", "token"));
}

std::vector<std::int64_t> steps_of(const CurveHistory<CurvePoint>& history) {
  std::vector<std::int64_t> steps;
  for (const auto& point : history.points()) steps.push_back(point.step);
  return steps;
}

TEST(CurveHistoryTest, KeepsFirstAndLastPointInBoundedRoom) {
  CurveHistory<CurvePoint> history(16);
  for (std::int64_t step = 0; step < 10'000; ++step) {
    history.add({.step = step, .loss = static_cast<double>(step)});
    ASSERT_LE(history.points().size(), 17U);
    ASSERT_EQ(history.points().back().step, step);
  }
  const auto steps = steps_of(history);
  EXPECT_EQ(steps.front(), 0);
  EXPECT_GE(steps.size(), 8U);
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  // The points that are kept are spread evenly.
  const auto gap = steps[1] - steps[0];
  for (std::size_t i = 2; i + 1 < steps.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(steps[i] - steps[i - 1]), static_cast<double>(gap),
                static_cast<double>(gap) / 2)
        << i;
  }
}

TEST(CurveHistoryTest, ForgetsWhatARestartHasUndone) {
  CurveHistory<CurvePoint> history;
  for (const std::int64_t step : {1, 5, 9, 12}) history.add({.step = step});
  history.add({.step = 9, .loss = 3});
  EXPECT_EQ(steps_of(history), (std::vector<std::int64_t>{1, 5, 9}));
  EXPECT_EQ(history.points().back().loss, 3);
}

/// Says what the test wants it to.
class MadeFeed final : public JobFeed {
 public:
  std::string snapshot() override { return say(); }
  std::string events(const std::string&, int) override { return log; }

  std::function<std::string()> say;
  std::string log = "[]";
};

class DashboardStateTest : public ::testing::Test {
 protected:
  Json shown(const std::string& snapshot) {
    feed_.say = [snapshot] { return snapshot; };
    state_.refresh();
    return Json::parse(*state_.text());
  }

  MadeFeed feed_;
  DashboardState state_{feed_};
};

TEST_F(DashboardStateTest, AddsCurvesAndEventsToEachJob) {
  feed_.log = R"([{"event":"start"}])";
  shown(R"({"jobs":[{"id":"a","step":1,"loss":2.5},{"id":"b"}]})");
  const auto state = shown(R"({"jobs":[{"id":"a","step":3,"loss":null,"accuracy":7},{"id":"b"}]})");
  const Json expected = {{"step", {1, 3}},
                         {"loss", {2.5, nullptr}},
                         {"accuracy", {nullptr, 7.0}},
                         {"samples_per_second", {nullptr, nullptr}}};
  EXPECT_EQ(state["jobs"][0]["curves"], expected);
  EXPECT_EQ(state["jobs"][0]["events"][0]["event"], "start");
  EXPECT_TRUE(state["jobs"][1]["curves"]["step"].empty());
  EXPECT_FALSE(state.contains("problem"));
}

TEST_F(DashboardStateTest, AddsACurveOfEachShareForEachInstance) {
  const auto snapshot = [](int step, const std::string& second) {
    return R"({"jobs":[{"id":"a","step":)" + std::to_string(step) +
           R"(,"hosts":[{"instances":[{"index":0,"time":{"data":0.25,"compute":0.75}}]},)" +
           R"({"instances":[{"index":3)" + second + "}]}]}]}";
  };
  shown(snapshot(1, ""));
  const auto curves = shown(snapshot(4, R"(,"time":{"idle":7,"reduce":0.126})"))["jobs"][0];
  EXPECT_EQ(curves["share_curves"], Json::parse(R"({"step":[1,4],"instances":{
      "0":{"data":[25,25],"compute":[75,75],"reduce":[0,0],"idle":[0,0]},
      "3":{"data":[null,0],"compute":[null,0],"reduce":[null,13],"idle":[null,100]}}})"));
}

TEST_F(DashboardStateTest, KeepsShareCurvesInBoundedRoom) {
  std::string instances;
  for (int i = 0; i < 200; ++i) {
    instances += (i > 0 ? R"(,{"index":)" : R"({"index":)") + std::to_string(i) +
                 R"(,"time":{"compute":1}})";
  }
  Json state;
  for (int step = 1; step <= 250; ++step) {
    state = shown(R"({"jobs":[{"id":"a","step":)" + std::to_string(step) +
                  R"(,"hosts":[{"instances":[)" + instances + "]}]}]}");
  }
  const auto& curves = state["jobs"][0]["share_curves"];
  EXPECT_EQ(curves["instances"].size(), 64U);
  EXPECT_LE(curves["step"].size(), 101U);
  EXPECT_EQ(curves["step"].back(), 250);
}

TEST_F(DashboardStateTest, HasAnotherVersionOnlyWhereSomethingChanged) {
  shown(R"({"jobs":[{"id":"a","step":1}]})");
  const auto version = state_.version();
  shown(R"({"jobs":[{"id":"a","step":1}]})");
  EXPECT_EQ(state_.version(), version);
  shown(R"({"jobs":[{"id":"a","step":2}]})");
  EXPECT_EQ(state_.version(), version + 1);
}

TEST_F(DashboardStateTest, ForgetsTheCurvesOfJobsThatAreGone) {
  shown(R"({"jobs":[{"id":"a","step":1}]})");
  shown(R"({"jobs":[]})");
  EXPECT_EQ(shown(R"({"jobs":[{"id":"a","step":2}]})")["jobs"][0]["curves"]["step"], Json({2}));
}

TEST_F(DashboardStateTest, KeepsWhatItHadWhenTheFeedFails) {
  shown(R"({"jobs":[{"id":"a","step":1}]})");
  for (const std::string bad : {"", "{", "[]", "{}", R"({"jobs":1})"}) {
    const auto state = shown(bad);
    EXPECT_EQ(state["jobs"][0]["id"], "a") << bad;
    EXPECT_THAT(state["problem"], HasSubstr("snapshot: expected")) << bad;
  }
  feed_.say = []() -> std::string { throw std::runtime_error("no \"pages\" \xff"); };
  state_.refresh();
  EXPECT_EQ(Json::parse(*state_.text())["problem"], "no \"pages\" \xef\xbf\xbd");
  EXPECT_THAT(shown(std::string((4U << 20) + 1, ' '))["problem"],
              HasSubstr("at most 4194304 bytes, found 4194305"));
  feed_.log = "no list";
  EXPECT_THAT(shown(R"({"jobs":[{"id":"a"}]})")["problem"], HasSubstr("events: expected JSON"));
}

TEST_F(DashboardStateTest, LeavesOutWhatIsNoJobAndWhatIsTooMany) {
  std::string jobs = R"({"jobs":[1,{},{"id":3},{"id":"x"})";
  for (int i = 0; i < 100; ++i) jobs += R"(,{"id":")" + std::to_string(i) + R"("})";
  EXPECT_EQ(shown(jobs + "]}")["jobs"].size(), 64U);
}

class ConnectionTableTest : public ::testing::Test {
 protected:
  struct Pair {
    Pair() {
      int fds[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
      ours.reset(fds[0]);
      theirs.reset(fds[1]);
    }
    bool is_closed() const {
      char byte = 0;
      return ::recv(theirs.get(), &byte, 1, 0) == 0;
    }
    UniqueFd ours;
    UniqueFd theirs;
  };

  void add(ConnectionTable& table, Pair& pair, std::chrono::milliseconds at) {
    table.add(&pair, pair.ours.get(), start_ + at);
  }

  ConnectionTable::Clock::time_point start_ = ConnectionTable::Clock::now();
  Pair first_, second_, third_;
};

TEST_F(ConnectionTableTest, GivesUpARequestThatIsNotCompleteInTime) {
  ConnectionTable table({.most = 10, .request = 100ms, .answer = 1000ms});
  add(table, first_, 0ms);
  add(table, second_, 50ms);
  table.give_up_overdue(start_ + 101ms);
  EXPECT_TRUE(first_.is_closed() && !second_.is_closed());
  EXPECT_EQ(table.given_up(), 1U);
  table.give_up_overdue(start_ + 102ms);
  EXPECT_EQ(table.given_up(), 1U);  // once is enough
}

TEST_F(ConnectionTableTest, WaitsLongerForAReaderAndForeverForAQuietStream) {
  ConnectionTable table({.most = 10, .request = 100ms, .answer = 1000ms});
  add(table, first_, 0ms);
  add(table, second_, 0ms);
  add(table, third_, 0ms);
  table.answering(&first_, start_);
  table.answering(&second_, start_);
  table.resting(&second_);
  table.answering(&third_, start_);
  table.awaiting_request(&third_, start_ + 900ms);
  table.give_up_overdue(start_ + 999ms);
  EXPECT_EQ(table.given_up(), 0U);
  table.give_up_overdue(start_ + 1001ms);
  EXPECT_TRUE(first_.is_closed() && !second_.is_closed() && third_.is_closed());
}

TEST_F(ConnectionTableTest, MakesRoomByTheOldestRequestThatIsNotComplete) {
  ConnectionTable table({.most = 4, .request = 100ms, .answer = 1000ms});
  add(table, first_, 0ms);
  table.answering(&first_, start_);
  add(table, second_, 1ms);
  add(table, third_, 2ms);
  EXPECT_TRUE(!first_.is_closed() && second_.is_closed() && !third_.is_closed());
  table.remove(&second_);
  EXPECT_EQ(table.size(), 2U);
}

TEST_F(ConnectionTableTest, MakesRoomByTheOldestReaderWhereAllRequestsAreComplete) {
  ConnectionTable table({.most = 4, .request = 100ms, .answer = 1000ms});
  add(table, first_, 0ms);
  add(table, second_, 1ms);
  table.answering(&second_, start_ + 2ms);
  table.answering(&first_, start_ + 3ms);
  add(table, third_, 4ms);
  EXPECT_TRUE(!first_.is_closed() && second_.is_closed() && !third_.is_closed());
}

class DashboardOptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dashboard_is_built()) GTEST_SKIP() << "this build has no web server";
  }

  void expect_refused(const DashboardOptions& options, const std::string& text,
                      ErrorKind kind = ErrorKind::Options) {
    expect_error([&] { const DashboardServer server(feed_, options); }, kind, text);
  }

  testing::FakeJobFeed feed_;
};

TEST(DashboardAbsentTest, SaysWhatTheBuildLacks) {
  if (dashboard_is_built()) GTEST_SKIP() << "this build has a web server";
  testing::FakeJobFeed feed;
  expect_error([&] { const DashboardServer server(feed, {}); }, ErrorKind::Unavailable,
               "dashboard: this build has no web server");
}

TEST_F(DashboardOptionsTest, NeedsATokenBeyondLoopback) {
  for (const auto* address : {"0.0.0.0", "::", "10.0.0.1"}) {
    expect_refused({.address = address}, "so a token is needed");
  }
  expect_refused({.token = "short"}, "16 to 128 characters");
}

TEST_F(DashboardOptionsTest, RefusesWhatMakesNoSense) {
  expect_refused({.address = "nowhere.example", .token = make_token()}, "found 'nowhere.example'");
  expect_refused({.port = 65536}, "found 65536");
  expect_refused({.port = -1}, "found -1");
  expect_refused({.interval = 9ms}, "at least 10 ms between two looks, found 9 ms");
  expect_refused({.most_connections = 7}, "8 to 4096 connections, found 7");
  expect_refused({.most_streams = 0}, "1 to 128 streams, half of the connections, found 0");
  expect_refused({.most_streams = 129}, "found 129");
}

TEST_F(DashboardOptionsTest, NamesAPortThatIsTaken) {
  const DashboardServer first(feed_, {});
  testing::FakeJobFeed other;
  expect_error(
      [&] { const DashboardServer second(other, {.port = first.port()}); }, ErrorKind::Io,
      "dashboard: port " + std::to_string(first.port()) + " of 127.0.0.1: Address already in use");
}

}  // namespace
}  // namespace lockstep::monitor
