// The server over real connections: what it answers, and what it withstands.
#include "lockstep/monitor/web/dashboard_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <regex>
#include <thread>
#include <vector>

#include "lockstep/base/version.h"
#include "lockstep/monitor/web/access.h"
#include "tests/monitor/dashboard_process.h"
#include "tests/monitor/http_client.h"
#include "tests/monitor/malformed_requests.h"
#include "tests/support/fake_job_feed.h"

namespace lockstep::monitor {
namespace {

using ::testing::AnyOf;
using testing::ask;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawConnection;
using testing::status_of;
using namespace std::chrono_literals;
using namespace std::string_literals;

class DashboardServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dashboard_is_built()) GTEST_SKIP() << "this build has no web server";
  }

  DashboardServer& serve(DashboardOptions options = {.interval = 20ms}) {
    server_ = serve_dashboard(feed_, options);
    return *server_;
  }

  testing::FakeJobFeed feed_;
  std::unique_ptr<DashboardServer> server_;
};

TEST_F(DashboardServerTest, ServesThePageAndAllThatItLoads) {
  const int port = serve().port();
  EXPECT_THAT(ask(port, "GET /"), AllOf(HasSubstr("200 OK"), HasSubstr("<title>lockstep</title>")));
  for (const auto* file : {"/dashboard.css", "/dashboard.js", "/charts.js", "/topology.js",
                           "/icon.svg", "/chart.js"}) {
    EXPECT_EQ(status_of(ask(port, std::string("GET ") + file)), 200) << file;
  }
  EXPECT_THAT(ask(port, "GET /chart.js"),
              AllOf(HasSubstr("Chart.js v"), HasSubstr("Content-Type: text/javascript")));
  const auto head = ask(port, "HEAD /");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST_F(DashboardServerTest, GivesEveryAnswerTheHeadersThatKeepOthersOut) {
  const int port = serve({.token = "0123456789abcdef"}).port();
  const std::string with_token = "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n";
  for (const auto& answer :
       {ask(port, "GET /", with_token), ask(port, "GET /none", with_token), ask(port, "GET /"),
        ask(port, "POST /"), ask(port, "GET /", "Host: evil.org\r\n"),
        ask(port, "GET /api/jobs", with_token), ask(port, "GET /?token=0123456789abcdef")}) {
    EXPECT_THAT(answer,
                HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self';"));
    EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff"));
    EXPECT_THAT(answer, HasSubstr("Cross-Origin-Resource-Policy: same-origin"));
    EXPECT_THAT(answer, HasSubstr("Referrer-Policy: no-referrer"));
    EXPECT_THAT(answer, Not(HasSubstr("Access-Control-Allow")));
  }
}

TEST_F(DashboardServerTest, AnswersWithTheJobsAsJson) {
  const auto answer = ask(serve().port(), "GET /api/jobs");
  const auto state = nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  EXPECT_EQ(state["jobs"][0]["id"], "train");
  EXPECT_GE(state["jobs"][0]["curves"]["step"].size(), 1U);
  EXPECT_EQ(state["jobs"][0]["events"][0]["event"], "start");
}

TEST_F(DashboardServerTest, ReadsNoFileWhateverIsAsked) {
  const int port = serve().port();
  for (const auto* path :
       {"/etc/passwd", "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
        "/..%2f..%2fetc%2fpasswd", "/dashboard.js/../../../etc/passwd", "/page/index.html",
        "/index.html", "/proc/self/environ", "file:///etc/passwd", "http://localhost/etc/passwd",
        "/api/../etc/passwd", "/api/", "/api/stop", "/%00", "/dashboard.js%00.html", "*"}) {
    const auto answer = ask(port, std::string("GET ") + path);
    EXPECT_THAT(status_of(answer), AnyOf(404, 400)) << path;
    EXPECT_THAT(answer, Not(HasSubstr("root:"))) << path;
  }
}

TEST_F(DashboardServerTest, HasNoMethodThatChangesAnything) {
  const int port = serve().port();
  for (const auto* method :
       {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"}) {
    EXPECT_EQ(status_of(ask(port, std::string(method) + " /api/jobs")), 405) << method;
  }
  EXPECT_EQ(status_of(ask(port, "POST /api/jobs", "Host: localhost\r\nContent-Length: 4\r\n")),
            413);
  EXPECT_EQ(status_of(ask(port, "GET /", "Host: localhost\r\nTransfer-Encoding: chunked\r\n")),
            413);
}

TEST_F(DashboardServerTest, AnswersToItsOwnNameOnly) {
  const int port = serve().port();
  EXPECT_EQ(status_of(ask(port, "GET /api/jobs", "Host: evil.org\r\n")), 421);
  EXPECT_EQ(status_of(ask(port, "GET /api/jobs", "Host: localhost.evil.org:80\r\n")), 421);
  EXPECT_THAT(status_of(ask(port, "GET /api/jobs", "")), AnyOf(400, 421));
  EXPECT_EQ(status_of(ask(port, "GET /api/jobs", "Host: 127.0.0.1:1\r\n")), 200);
}

TEST_F(DashboardServerTest, TellsOtherSitesNothing) {
  const int port = serve().port();
  EXPECT_EQ(
      status_of(ask(port, "GET /api/stream", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n")),
      403);
  EXPECT_EQ(
      status_of(ask(port, "GET /api/jobs", "Host: localhost\r\nSec-Fetch-Site: same-site\r\n")),
      403);
  EXPECT_EQ(
      status_of(ask(port, "GET /api/jobs", "Host: localhost\r\nSec-Fetch-Site: same-origin\r\n")),
      200);
}

TEST_F(DashboardServerTest, LetsInWhoKnowsTheToken) {
  const auto token = make_token();
  const auto& server = serve({.token = token});
  const int port = server.port();
  EXPECT_THAT(server.url(), ::testing::EndsWith("/?token=" + token));
  for (const auto* path : {"/", "/dashboard.js", "/api/jobs", "/api/stream", "/none",
                           "/?token=", "/?token=0123456789abcdef0123456789abcdef"}) {
    EXPECT_EQ(status_of(ask(port, std::string("GET ") + path)), 401) << path;
  }
  EXPECT_EQ(
      status_of(ask(port, "GET /", "Host: localhost\r\nAuthorization: Bearer " + token + "\r\n")),
      200);
  EXPECT_EQ(status_of(ask(port, "GET /",
                          "Host: localhost\r\nAuthorization: Bearer x" + token.substr(1) + "\r\n")),
            401);
  const auto answer = ask(port, "GET /?token=" + token);
  EXPECT_EQ(status_of(answer), 303);
  EXPECT_THAT(answer, HasSubstr("\r\nLocation: /\r\n"));
  const auto name = "lockstep_token_" + std::to_string(port) + "=" + token;
  EXPECT_THAT(answer, HasSubstr("Set-Cookie: " + name + "; HttpOnly; SameSite=Strict; Path=/"));
  EXPECT_EQ(
      status_of(ask(port, "GET /api/jobs", "Host: localhost\r\nCookie: a=b; " + name + "\r\n")),
      200);
}

/// Waits for so many states on a stream and returns the steps that they tell of.
std::vector<int> read_steps(RawConnection& stream, std::size_t count) {
  std::vector<int> steps;
  while (steps.size() < count && stream.read_until("\n\n", 30s)) {
    auto& text = stream.read();
    const auto end = text.find("\n\n");
    // Without the sizes of chunks, which may stand anywhere.
    const auto event =
        std::regex_replace(text.substr(0, end), std::regex("\r\n[0-9a-fA-F]+\r\n?"), "");
    if (const auto begin = event.find("data: "); begin != std::string::npos) {
      steps.push_back(nlohmann::json::parse(event.substr(begin + 6))["jobs"][0]["step"]);
    }
    text.erase(0, end + 2);
  }
  return steps;
}

std::unique_ptr<RawConnection> open_stream(int port) {
  auto stream = std::make_unique<RawConnection>(port);
  stream->send("GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return stream;
}

TEST_F(DashboardServerTest, StreamsEachChangeToManyPages) {
  const auto& server = serve({.interval = 50ms});
  std::vector<std::unique_ptr<RawConnection>> streams;
  for (int i = 0; i < 60; ++i) streams.push_back(open_stream(server.port()));
  for (auto& stream : streams) {
    const auto steps = read_steps(*stream, 4);
    ASSERT_EQ(steps.size(), 4U);
    EXPECT_TRUE(std::ranges::is_sorted(steps) && steps.front() < steps.back());
  }
  EXPECT_TRUE(testing::eventually([&] { return server.statistics().open_streams == 60; }, 30s));
  streams.clear();
  EXPECT_TRUE(testing::eventually([&] { return server.statistics().open_streams == 0; }, 30s));
}

TEST_F(DashboardServerTest, RefusesMoreStreamsThanItHasRoomFor) {
  const auto& server = serve({.interval = 20ms, .most_streams = 2});
  const auto first = open_stream(server.port());
  const auto second = open_stream(server.port());
  ASSERT_TRUE(testing::eventually([&] { return server.statistics().open_streams == 2; }, 30s));
  EXPECT_EQ(status_of(ask(server.port(), "GET /api/stream")), 503);
  EXPECT_EQ(status_of(ask(server.port(), "GET /")), 200);
}

TEST_F(DashboardServerTest, GivesUpAStreamThatNobodyReads) {
  // Patient for so long that a busy machine does not keep this test from seeing the stream.
  const auto& server = serve({.interval = 10ms, .patience = 2s});
  RawConnection stream(server.port());
  const int small = 1024;
  ::setsockopt(stream.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  stream.send("GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(testing::eventually([&] { return server.statistics().open_streams == 1; }, 30s));
  EXPECT_TRUE(testing::eventually([&] { return server.statistics().open_streams == 0; }, 60s));
  EXPECT_TRUE(testing::eventually([&] { return server.statistics().given_up == 1; }, 20s));
}

TEST_F(DashboardServerTest, GivesUpWhoSendsAByteNowAndThen) {
  const auto& server = serve({.patience = 300ms});
  RawConnection slow(server.port());
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\nX: ";
  slow.send(request);
  // Never idle for as long as its patience.
  EXPECT_TRUE(
      testing::eventually([&] { return !slow.send("x") || slow.is_closed_within(20ms); }, 20s));
  // The server counts a connection a moment after it has closed it.
  EXPECT_TRUE(testing::eventually([&] { return server.statistics().given_up == 1; }, 20s));
}

TEST_F(DashboardServerTest, ServesOthersWhileSlowOnesHoldAllConnections) {
  const auto& server = serve({.most_connections = 8, .most_streams = 2, .patience = 60s});
  std::vector<std::unique_ptr<RawConnection>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<RawConnection>(server.port()));
    slow.back()->send("GET / HT");
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(status_of(ask(server.port(), "GET /")), 200);
  EXPECT_LE(server.statistics().open_connections, 8);
}

TEST_F(DashboardServerTest, ServesOthersWhileAnswersThatNobodyReadsHoldAllConnections) {
  const auto& server = serve({.most_connections = 8, .most_streams = 2, .patience = 60s});
  // More than the buffers of a connection take.
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += "GET /chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::vector<std::unique_ptr<RawConnection>> deaf;
  for (int i = 0; i < 6; ++i) {
    deaf.push_back(std::make_unique<RawConnection>(server.port()));
    deaf.back()->send(requests);
  }
  // Until all of their buffers are full, and nothing moves any more.
  const auto is_stuck = [&] {
    const auto before = server.statistics().requests;
    std::this_thread::sleep_for(200ms);
    return server.statistics().open_connections == 6 && server.statistics().requests == before;
  };
  ASSERT_TRUE(testing::eventually(is_stuck, 20s));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(status_of(ask(server.port(), "GET /")), 200) << i;
}

TEST_F(DashboardServerTest, EndsAtOnceWithStreamsOpen) {
  const auto& server = serve();
  auto stream = open_stream(server.port());
  ASSERT_EQ(read_steps(*stream, 1).size(), 1U);
  const auto begin = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_TRUE(stream->is_closed_within(20s));
}

TEST_F(DashboardServerTest, SendsTheLastStateBeforeItEnds) {
  serve();
  auto stream = open_stream(server_->port());
  ASSERT_EQ(read_steps(*stream, 1).size(), 1U);
  feed_.end_training();
  server_.reset();
  const auto text =
      std::regex_replace(stream->read_all(20s), std::regex("\r\n[0-9a-fA-F]+\r\n?"), "");
  const auto begin = text.rfind("data: ");
  ASSERT_NE(begin, std::string::npos) << text;
  const auto end = text.find("\n\n", begin);
  ASSERT_NE(end, std::string::npos) << text;
  const auto job = nlohmann::json::parse(text.substr(begin + 6, end - begin - 6))["jobs"][0];
  EXPECT_EQ(job["state"], "ended");
  EXPECT_EQ(job["end"]["exit_code"], 137);
  EXPECT_EQ(job["hosts"].size(), 2U);
  EXPECT_GE(job["curves"]["step"].size(), 1U);
}

TEST_F(DashboardServerTest, EndsThoughAStreamDoesNotReadTheLastState) {
  serve({.interval = 10ms});
  RawConnection stream(server_->port());
  const int small = 1024;
  ::setsockopt(stream.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  stream.send("GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(testing::eventually([&] { return server_->statistics().open_streams == 1; }, 30s));
  const auto begin = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

/// A feed that blocks until it is allowed to return.
class BlockedFeed final : public JobFeed {
 public:
  std::vector<DashboardJob> jobs() override {
    if (++looks > 1) {
      while (is_blocked) std::this_thread::sleep_for(1ms);
    }
    return {{.id = "a", .step = looks.load()}};
  }
  std::atomic<int> looks = 0;
  std::atomic<bool> is_blocked = true;
};

TEST_F(DashboardServerTest, AnswersWhileTheFeedBlocks) {
  BlockedFeed feed;
  const auto server = serve_dashboard(feed, {.interval = 10ms});
  EXPECT_TRUE(testing::eventually([&] { return feed.looks == 2; }, 20s));
  EXPECT_THAT(ask(server->port(), "GET /api/jobs"), HasSubstr("\"step\":1"));
  auto stream = open_stream(server->port());
  EXPECT_EQ(read_steps(*stream, 1), std::vector<int>{1});
  feed.is_blocked = false;
  EXPECT_EQ(status_of(ask(server->port(), "GET /")), 200);
}

long resident_kib(pid_t process) {
  const auto text = read_file("/proc/" + std::to_string(process) + "/status");
  return std::atol(text.c_str() + text.find("VmRSS:") + 6);
}

TEST_F(DashboardServerTest, IsNotDisturbedBy10000MalformedOrSlowRequests) {
  testing::DashboardProcess dashboard({"100"});
  const int port = dashboard.port();
  for (int i = 0; i < 20; ++i) ask(port, "GET /chart.js");
  const auto memory_before = resident_kib(dashboard.process().pid());
  auto page = open_stream(port);
  std::atomic<bool> is_over = false;
  std::size_t states = 0;
  std::thread reader([&] {
    while (!is_over) states += read_steps(*page, 1).size();
  });
  std::mt19937 random(1);
  std::deque<std::unique_ptr<RawConnection>> held;  // more than the server has room for
  std::vector<double> milliseconds;
  for (std::size_t i = 0; i < 10'000; ++i) {
    held.push_back(std::make_unique<RawConnection>(port));
    held.back()->send(testing::malformed(i, random));
    if (held.size() > 300) held.pop_front();
    held[random() % held.size()]->send("x");
    if (i % 100 != 99) continue;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(status_of(ask(port, "GET /api/jobs")), 200) << i;
    milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  is_over = true;
  reader.join();
  const auto growth = resident_kib(dashboard.process().pid()) - memory_before;
  std::ranges::sort(milliseconds);
  std::printf(
      "answers meanwhile: median %.1f ms, longest %.1f ms; states on the page %zu; memory +%ld "
      "KiB\n",
      milliseconds[milliseconds.size() / 2], milliseconds.back(), states, growth);
  EXPECT_GE(states, 5U);
  if (sanitizers().empty()) {
    EXPECT_LT(growth, 16'384);
  }
  held.clear();
  dashboard.process().signal(SIGTERM);
  const auto result = dashboard.process().wait();
  EXPECT_EQ(result.exit_code, 0);
  std::printf("%s", result.out.c_str());
}

}  // namespace
}  // namespace lockstep::monitor
