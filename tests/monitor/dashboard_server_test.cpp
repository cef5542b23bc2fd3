// The server over real connections: what it answers, and what it withstands.
#include "lockstep/monitor/web/dashboard_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "lockstep/base/version.h"
#include "lockstep/monitor/web/access.h"
#include "tests/monitor/dashboard_client.h"
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
using testing::OpenPage;
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
  EXPECT_GE(state["jobs"][0]["curves"].size(), 1U);
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
  const auto with_body = ask(port, "POST /api/jobs", "Host: localhost\r\nContent-Length: 4\r\n");
  EXPECT_EQ(status_of(with_body), 413);
  EXPECT_THAT(with_body, HasSubstr("\r\n\r\nThe dashboard accepts no request body.\n"));
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
      status_of(ask(port, "GET /api/jobs", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n")),
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
  for (const auto* path : {"/", "/dashboard.js", "/api/jobs", "/none",
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
  EXPECT_EQ(status_of(ask(port, "GET /api/jobs",
                          "Host: localhost\r\nCookie: a={\"b\":1,\"c\":2}; " + name + "\r\n")),
            200);
}

int step_of(const nlohmann::json& state) {
  return state.at("jobs").at(0).at("step");
}

TEST_F(DashboardServerTest, ShowsEachChangeToManyPages) {
  const auto& server = serve({.interval = 50ms, .patience = 60s});
  std::deque<OpenPage> pages;
  for (int i = 0; i < 60; ++i) pages.emplace_back(server.port());
  std::vector<int> steps(pages.size());
  for (int round = 0; round < 4; ++round) {
    for (auto& page : pages) page.ask();
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto answer = pages[i].receive();
      ASSERT_EQ(status_of(answer), 200);
      const auto step = step_of(nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4)));
      EXPECT_GT(step, steps[i]);
      steps[i] = step;
    }
  }
}

/// A job that does not change, unless the test changes it.
class QuietFeed final : public JobFeed {
 public:
  std::vector<DashboardJob> jobs() override { return {{.id = "a", .step = step.load()}}; }
  std::atomic<int> step = 1;
};

TEST_F(DashboardServerTest, AnswersAPageThatWaitsWhenTheJobsChange) {
  QuietFeed feed;
  const auto server = serve_dashboard(feed, {.interval = 10ms});
  OpenPage page(server->port());
  EXPECT_EQ(step_of(page.next().value()), 1);
  page.ask();
  EXPECT_EQ(page.receive(300ms), "");
  feed.step = 2;
  EXPECT_THAT(page.receive(), HasSubstr("\"step\":2"));
}

TEST_F(DashboardServerTest, AnswersAtOnceIfTheClientDoesNotWait) {
  QuietFeed feed;
  const auto server = serve_dashboard(feed, {});
  const auto first = ask(server->port(), "GET /api/jobs");
  const auto tag = first.substr(first.find("ETag: ") + 6, 18);
  EXPECT_EQ(status_of(ask(server->port(), "GET /api/jobs",
                          "Host: localhost\r\nIf-None-Match: " + tag + "\r\n")),
            304);
  EXPECT_EQ(status_of(ask(server->port(), "GET /api/jobs",
                          "Host: localhost\r\nIf-None-Match: W/" + tag + "\r\n")),
            304)
      << "a proxy has compressed the first answer";
  EXPECT_EQ(status_of(ask(server->port(), "GET /api/jobs",
                          "Host: localhost\r\nIf-None-Match: \"other\"\r\nPrefer: wait\r\n")),
            200);
}

/// A client that has gone is noticed only when the server sends to it.
TEST_F(DashboardServerTest, EndsALongWaitThoughNothingHasChanged) {
  QuietFeed feed;
  const auto server = serve_dashboard(feed, {.interval = 10ms, .patience = 100ms});
  OpenPage page(server->port());
  ASSERT_TRUE(page.next());
  page.ask();
  EXPECT_EQ(status_of(page.receive(30s)), 304);
}

TEST_F(DashboardServerTest, RefusesMorePagesThanItHasRoomFor) {
  QuietFeed feed;
  const auto server = serve_dashboard(feed, {.interval = 10ms, .most_waiting = 2, .patience = 60s});
  std::deque<OpenPage> pages;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pages.emplace_back(server->port()).next());
  for (auto& page : pages) page.ask();
  // Two wait, and the third is refused. The server may read the requests in any order.
  int refused = 0;
  const auto is_one_refused = [&] {
    for (auto& page : pages) refused += status_of(page.receive(50ms)) == 503;
    return refused > 0;
  };
  EXPECT_TRUE(testing::eventually(is_one_refused, 30s));
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(status_of(ask(server->port(), "GET /")), 200);
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

int bytes_received(const RawConnection& connection) {
  int bytes = 0;
  ::ioctl(connection.fd(), FIONREAD, &bytes);
  return bytes;
}

/// More than the buffers of a connection take.
std::string many_requests() {
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += "GET /chart.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
  return requests;
}

TEST_F(DashboardServerTest, GivesUpAnAnswerThatNobodyReads) {
  const auto& server = serve({.interval = 10ms, .patience = 300ms});
  const auto before = open_files();
  const RawConnection deaf(server.port());
  deaf.send(many_requests());
  EXPECT_TRUE(testing::eventually([&] { return bytes_received(deaf) > 0; }, 20s));
  EXPECT_TRUE(testing::eventually([&] { return open_files() == before + 1; }, 20s));
}

TEST_F(DashboardServerTest, GivesUpWhoSendsAByteNowAndThen) {
  const auto& server = serve({.patience = 300ms});
  RawConnection slow(server.port());
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\nX: ";
  slow.send(request);
  // Never idle for as long as its patience.
  EXPECT_TRUE(
      testing::eventually([&] { return !slow.send("x") || slow.is_closed_within(20ms); }, 20s));
}

TEST_F(DashboardServerTest, ServesOthersWhileSlowOnesHoldAllConnections) {
  const auto& server = serve({.most_connections = 8, .most_waiting = 2, .patience = 60s});
  std::vector<std::unique_ptr<RawConnection>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<RawConnection>(server.port()));
    slow.back()->send("GET / HT");
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(status_of(ask(server.port(), "GET /")), 200);
  EXPECT_LT(std::ranges::count_if(slow, [](auto& each) { return !each->is_closed_within(1ms); }),
            8);
}

TEST_F(DashboardServerTest, ServesOthersWhileAnswersThatNobodyReadsHoldAllConnections) {
  const auto& server = serve({.most_connections = 8, .most_waiting = 2, .patience = 60s});
  std::vector<std::unique_ptr<RawConnection>> deaf;
  for (int i = 0; i < 6; ++i) {
    deaf.push_back(std::make_unique<RawConnection>(server.port()));
    deaf.back()->send(many_requests());
  }
  // Until all of their buffers are full, and nothing moves any more.
  std::vector<int> bytes(deaf.size());
  const auto is_stuck = [&] {
    const auto before = bytes;
    std::this_thread::sleep_for(200ms);
    std::ranges::transform(deaf, bytes.begin(), [](auto& each) { return bytes_received(*each); });
    return std::ranges::min(bytes) > 0 && bytes == before;
  };
  ASSERT_TRUE(testing::eventually(is_stuck, 20s));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(status_of(ask(server.port(), "GET /")), 200) << i;
}

TEST_F(DashboardServerTest, ShowsTheLastStateToAWaitingPageBeforeItEnds) {
  serve({.interval = 1h});
  OpenPage page(server_->port());
  ASSERT_TRUE(page.next());
  page.ask();
  // The request of the page comes before this one.
  ASSERT_EQ(status_of(ask(server_->port(), "GET /")), 200);
  feed_.end_training();
  const auto begin = std::chrono::steady_clock::now();
  std::thread end([this] { server_.reset(); });
  const auto answer = page.receive();
  EXPECT_FALSE(page.next());
  end.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  const auto job =
      nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4)).at("jobs").at(0);
  EXPECT_EQ(job["state"], "ended");
  EXPECT_EQ(job["end"]["exit_code"], 137);
  EXPECT_EQ(job["instances"].size(), 4U);
  EXPECT_GE(job["curves"].size(), 1U);
}

TEST_F(DashboardServerTest, EndsThoughAPageDoesNotReadTheLastState) {
  serve({.interval = 10ms});
  const RawConnection page(server_->port());
  page.send(many_requests());
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
  std::atomic<bool> is_over = false;
  std::size_t states = 0;
  std::thread reader([&] {
    std::optional<OpenPage> page;
    while (!is_over) {
      // The server may close the connection to make room. Then a browser opens another one.
      if (!page) page.emplace(port);
      if (page->next()) {
        ++states;
      } else {
        page.reset();
      }
    }
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
  EXPECT_EQ(dashboard.process().wait().exit_code, 0);
}

}  // namespace
}  // namespace lockstep::monitor
