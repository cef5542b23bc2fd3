// What the dashboard's server is made of, without the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/monitor/web/access.h"
#include "lockstep/monitor/web/connection_table.h"
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

TEST(AccessTest, AcceptsOnlyTheSameToken) {
  const std::string token = "0123456789abcdef";
  EXPECT_TRUE(is_same_token("0123456789abcdef", token));
  for (const auto* wrong :
       {"", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0", "x123456789abcdef"}) {
    EXPECT_FALSE(is_same_token(wrong, token)) << wrong;
  }
}

TEST(AccessTest, RefusesTokensThatCouldBeGuessedOrDoNotFitAUrl) {
  expect_error([] { check_token("short"); }, ErrorKind::Options, "16 to 128 characters, found 5");
  expect_error([] { check_token(std::string(129, 'a')); }, ErrorKind::Options, "found 129");
  expect_error([] { check_token("0123456789abcde;"); }, ErrorKind::Options, "another character");
}

TEST(AccessTest, MakesTokensThatDiffer) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(make_token());
  EXPECT_EQ(tokens.size(), 100U);
  EXPECT_EQ(tokens.begin()->size(), 32U);
  EXPECT_NO_THROW(check_token(*tokens.begin()));
}

/// The first values of the rows.
TEST(AccessTest, FindsACookieAmongOthers) {
  EXPECT_EQ(cookie("a=1; token_8=x=y;b=2", "token_8"), "x=y");
  EXPECT_EQ(cookie("broken=\"a, b; c d; token_8=z", "token_8"), "z");
  EXPECT_EQ(cookie("token=", "token"), "");
  EXPECT_EQ(cookie("token_80=1; xtoken_8=2; token_8", "token_8"), "");
  EXPECT_EQ(cookie("", "token"), "");
}

std::vector<std::int64_t> steps_of(const Json& rows) {
  std::vector<std::int64_t> steps;
  for (const auto& row : rows) steps.push_back(row.at(0));
  return steps;
}

TEST(CurveHistoryTest, KeepsFirstAndLastRowInBoundedRoom) {
  CurveHistory history(16);
  for (std::int64_t step = 0; step < 10'000; ++step) {
    history.add(step, "[" + std::to_string(step) + "]");
    const auto steps = steps_of(Json::parse(history.text()));
    ASSERT_LE(steps.size(), 17U);
    ASSERT_EQ(steps.back(), step);
  }
  const auto steps = steps_of(Json::parse(history.text()));
  EXPECT_EQ(steps.front(), 0);
  EXPECT_GE(steps.size(), 8U);
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  // The rows that are kept are spread evenly.
  const auto gap = steps[1] - steps[0];
  for (std::size_t i = 2; i + 1 < steps.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(steps[i] - steps[i - 1]), static_cast<double>(gap),
                static_cast<double>(gap) / 2)
        << i;
  }
}

TEST(CurveHistoryTest, ForgetsWhatARestartHasUndone) {
  CurveHistory history(400);
  EXPECT_EQ(history.text(), "[]");
  for (const std::int64_t step : {1, 5, 9, 12}) history.add(step, "[" + std::to_string(step) + "]");
  history.add(9, "[9,3]");
  EXPECT_EQ(history.text(), "[[1],[5],[9,3]]");
}

/// Returns the jobs that the test has set, or throws its error.
class MadeFeed final : public JobFeed {
 public:
  std::vector<DashboardJob> jobs() override {
    if (!error.empty()) throw std::runtime_error(error);
    return made;
  }

  std::vector<DashboardJob> made;
  std::string error;
};

class DashboardStateTest : public ::testing::Test {
 protected:
  Json shown(std::vector<DashboardJob> jobs) {
    feed_.made = std::move(jobs);
    text_ = state_.refresh();
    return Json::parse(text_);
  }

  MadeFeed feed_;
  DashboardState state_{feed_};
  std::string text_;
};

TEST_F(DashboardStateTest, HasAllThatIsKnownOfAJobAndNothingElse) {
  const auto full =
      shown({{.id = "a",
              .name = "mlp",
              .user = "ann",
              .epoch = 2,
              .step = 120,
              .loss = 1.45,
              .accuracy = 48.4,
              .samples_per_second = 2031.5,
              .restarts = 0,
              .bottleneck = "compute-bound",
              .slowest = 3,
              .instances = {{.host = "a",
                             .index = 0,
                             .phase = "training",
                             .process = 4712,
                             .step = 120,
                             .samples_per_second = 1015.2,
                             .memory_mib = 812,
                             .cpu_percent = 99,
                             .time = TimeShares{.data = 0.25, .compute = 0.75},
                             .replicas = {{.index = 0, .stage_devices = {"cpu 0", ""}}}},
                            {.host = "b", .index = 1, .is_alive = false}}}});
  auto job = full["jobs"][0];
  for (const auto* made_here : {"curves", "share_curves"}) job.erase(made_here);
  EXPECT_EQ(job, Json::parse(R"({"id":"a","name":"mlp","user":"ann","state":"running","epoch":2,
      "step":120,"loss":1.45,"accuracy":48.4,"samples_per_second":2031.5,"restarts":0,
      "bottleneck":"compute-bound","slowest":3,"events":[],"instances":[
        {"host":"a","index":0,"alive":true,"phase":"training","pid":4712,"step":120,
          "samples_per_second":1015.2,"memory_mib":812,"cpu_percent":99.0,
          "time":{"data":0.25,"compute":0.75,"reduce":0.0,"idle":0.0},
          "replicas":[{"index":0,"stages":["cpu 0",""]}]},
        {"host":"b","index":1,"alive":false,"phase":"","replicas":[]}]})"));
  auto bare = shown({{.id = "b", .loss = std::nan("")}})["jobs"][0];
  for (const auto* made_here : {"curves", "share_curves"}) bare.erase(made_here);
  EXPECT_EQ(bare, Json::parse(R"({"id":"b","name":"","user":"","state":"running","bottleneck":"",
      "instances":[],"events":[]})"));
}

TEST_F(DashboardStateTest, RoundsNumbersToSixDigits) {
  const std::pair<double, const char*> all[] = {
      {2.0 / 3, "0.666667"}, {-2.0 / 3, "-0.666667"},      {0.1 + 0.2, "0.3"},
      {1e6 / 7, "142857.0"}, {123456789.0, "123457000.0"}, {999999.7, "1000000.0"},
      {0.0, "0.0"},          {1e-7 / 3, "3.33333e-08"},    {1000.0, "1000.0"}};
  for (const auto& [value, text] : all) {
    shown({{.id = "a", .loss = value}});
    EXPECT_THAT(text_, HasSubstr(std::string("\"loss\":") + text + ",")) << value;
  }
  for (const double extreme : {5e-324, 1e308, -1e-300}) {
    EXPECT_EQ(shown({{.id = "a", .loss = extreme}})["jobs"][0]["loss"], extreme);
  }
}

TEST_F(DashboardStateTest, AddsCurvesAndEventsToEachJob) {
  shown({{.id = "a", .step = 1, .loss = 2.5}, {.id = "b"}});
  const auto state = shown({{.id = "a",
                             .step = 3,
                             .accuracy = 7,
                             .events = {{.event = "start",
                                         .instance = 1,
                                         .more = {{"host", "n"}, {"pid", std::int64_t{7}}}}}},
                            {.id = "b"}});
  EXPECT_EQ(state["jobs"][0]["curves"], Json::parse("[[1,2.5,null,null],[3,null,7.0,null]]"));
  EXPECT_EQ(state["jobs"][0]["events"],
            Json::parse(R"([{"event":"start","instance":1,"host":"n","pid":7}])"));
  EXPECT_TRUE(state["jobs"][1]["curves"].empty());
  EXPECT_TRUE(state["problem"].is_null());
}

TEST_F(DashboardStateTest, AddsACurveOfEachShareForEachInstance) {
  const auto job = [](int step, std::optional<TimeShares> second) {
    return std::vector<DashboardJob>{
        {.id = "a",
         .step = step,
         .instances = {{.index = 0, .time = TimeShares{.data = 0.25, .compute = 0.75}},
                       {.index = 3, .time = second}}}};
  };
  shown(job(1, {}));
  const auto curves = shown(job(4, TimeShares{.reduce = 0.126, .idle = 7}))["jobs"][0];
  EXPECT_EQ(curves["share_curves"], Json::parse(R"([
      [1, {"0": [25, 75, 0, 0]}],
      [4, {"0": [25, 75, 0, 0], "3": [0, 0, 13, 100]}]])"));
}

TEST_F(DashboardStateTest, KeepsShareCurvesInBoundedRoom) {
  DashboardJob job{.id = "a"};
  for (int i = 0; i < 200; ++i) {
    job.instances.push_back({.index = i, .time = TimeShares{.compute = 1}});
  }
  for (int step = 1; step < 250; ++step) {
    job.step = step;
    feed_.made = {job};
    state_.refresh();
  }
  job.step = 250;
  const auto curves = shown({job})["jobs"][0]["share_curves"];
  EXPECT_LE(curves.size(), 101U);
  EXPECT_EQ(curves.back()[0], 250);
  EXPECT_EQ(curves.back()[1].size(), 64U);
}

TEST_F(DashboardStateTest, ForgetsTheCurvesOfJobsThatAreGone) {
  shown({{.id = "a", .step = 1}});
  shown({});
  EXPECT_EQ(shown({{.id = "a", .step = 2}})["jobs"][0]["curves"].size(), 1U);
}

TEST_F(DashboardStateTest, KeepsTheCurvesOfAJobThatHasEndedAndSaysHowItEnded) {
  DashboardJob job{.id = "a",
                   .step = 1,
                   .loss = 2.5,
                   .samples_per_second = 8,
                   .instances = {{.host = "n", .index = 0, .time = TimeShares{.compute = 1}}}};
  shown({job});
  job.end = JobEnd{.exit_code = 1, .text = "failed after 3.0 s (exit code 1)"};
  job.samples_per_second.reset();
  job.instances[0].time.reset();
  for (int look = 0; look < 2; ++look) {
    const auto state = shown({job})["jobs"][0];
    EXPECT_EQ(state["state"], "ended");
    EXPECT_EQ(state["end"],
              Json::parse(R"x({"exit_code":1,"text":"failed after 3.0 s (exit code 1)"})x"));
    EXPECT_EQ(state["curves"], Json::parse("[[1,2.5,null,8.0]]"));
    EXPECT_EQ(state["share_curves"], Json::parse(R"([[1,{"0":[0,100,0,0]}]])"));
    EXPECT_EQ(state["instances"].size(), 1U);
  }
  job.end.reset();
  job.step = 2;
  EXPECT_EQ(shown({job})["jobs"][0]["state"], "running");
}

TEST_F(DashboardStateTest, KeepsWhatItHadWhenTheFeedFails) {
  shown({{.id = "a", .step = 1}});
  feed_.error = "no \"pages\" \xff";
  const auto state = Json::parse(state_.refresh());
  EXPECT_EQ(state["jobs"][0]["id"], "a");
  EXPECT_EQ(state["problem"], "no \"pages\" \xef\xbf\xbd");
  feed_.error.clear();
  const auto large = shown({{.id = "a", .name = std::string(DashboardState::kMostBytes, 'x')}});
  EXPECT_EQ(large["jobs"][0]["step"], 1);
  EXPECT_THAT(large["problem"], HasSubstr("expected at most 16777216 bytes to show, found 16777"));
  EXPECT_TRUE(shown({{.id = "a"}})["problem"].is_null());
}

TEST_F(DashboardStateTest, LeavesOutWhatIsTooMany) {
  std::vector<DashboardJob> jobs;
  for (int i = 0; i < 100; ++i) jobs.push_back({.id = std::to_string(i)});
  EXPECT_EQ(shown(jobs)["jobs"].size(), 64U);
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

  void add(ConnectionTable& table, Pair& pair, std::chrono::milliseconds deadline) {
    table.add(&pair, pair.ours.get(), start_ + deadline);
  }

  ConnectionTable::Clock::time_point start_ = ConnectionTable::Clock::now();
  Pair first_, second_, third_;
};

TEST_F(ConnectionTableTest, ClosesConnectionsAfterTheirDeadlines) {
  ConnectionTable table(10);
  add(table, first_, 100ms);
  add(table, second_, 150ms);
  add(table, third_, 100ms);
  table.set_deadline(&third_, start_ + 1000ms);
  table.close_overdue(start_ + 101ms);
  EXPECT_TRUE(first_.is_closed() && !second_.is_closed() && !third_.is_closed());
  table.close_overdue(start_ + 999ms);
  EXPECT_TRUE(second_.is_closed() && !third_.is_closed());
  table.remove(&third_);
  EXPECT_TRUE(table.is_empty());
}

TEST_F(ConnectionTableTest, WaitsForeverForAConnectionWithoutADeadline) {
  ConnectionTable table(3);
  add(table, first_, 100ms);
  table.set_deadline(&first_, ConnectionTable::kNoDeadline);
  table.close_overdue(start_ + 1h);
  add(table, second_, 200ms);
  add(table, third_, 300ms);
  EXPECT_TRUE(!first_.is_closed() && second_.is_closed() && !third_.is_closed());
}

TEST_F(ConnectionTableTest, MakesRoomByTheEarliestDeadline) {
  ConnectionTable table(4);
  add(table, first_, 100ms);
  table.set_deadline(&first_, start_ + 1000ms);
  add(table, second_, 101ms);
  add(table, third_, 102ms);
  EXPECT_TRUE(!first_.is_closed() && second_.is_closed() && !third_.is_closed());
}

class DashboardOptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dashboard_is_built()) GTEST_SKIP() << "this build has no web server";
  }

  void expect_refused(const DashboardOptions& options, const std::string& text,
                      ErrorKind kind = ErrorKind::Options) {
    expect_error([&] { serve_dashboard(feed_, options); }, kind, text);
  }

  testing::FakeJobFeed feed_;
};

TEST(DashboardAbsentTest, SaysWhatTheBuildLacks) {
  if (dashboard_is_built()) GTEST_SKIP() << "this build has a web server";
  testing::FakeJobFeed feed;
  expect_error([&] { serve_dashboard(feed, {}); }, ErrorKind::Unavailable,
               "dashboard: this build has no web server");
}

TEST_F(DashboardOptionsTest, NeedsATokenBeyondLoopback) {
  for (const auto* address : {"0.0.0.0", "::", "10.0.0.1"}) {
    expect_refused({.address = address}, "so a token is required");
  }
  expect_refused({.token = "short"}, "16 to 128 characters");
}

TEST_F(DashboardOptionsTest, RefusesWhatMakesNoSense) {
  expect_refused({.address = "nowhere.example", .token = make_token()}, "found 'nowhere.example'");
  expect_refused({.port = 65536}, "found 65536");
  expect_refused({.port = -1}, "found -1");
}

TEST_F(DashboardOptionsTest, NamesAPortThatIsTaken) {
  const auto first = serve_dashboard(feed_, {});
  testing::FakeJobFeed other;
  expect_error(
      [&] { serve_dashboard(other, {.port = first->port()}); }, ErrorKind::Io,
      "dashboard: port " + std::to_string(first->port()) + " of 127.0.0.1: Address already in use");
}

}  // namespace
}  // namespace lockstep::monitor
