// dashboard_double [INTERVAL_MS [TOKEN]]: serves the dashboard of two jobs that do not exist on
// loopback and prints its address. On SIGTERM the running job fails and the dashboard ends.
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/monitor/web/dashboard_server.h"
#include "tests/support/fake_job_feed.h"

namespace {

void wait_for_end() {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  int signal = 0;
  ::sigwait(&ends, &signal);
}

}  // namespace

int main(int count, char** arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  lockstep::monitor::DashboardOptions options;
  if (count > 1) options.interval = std::chrono::milliseconds(std::atoi(arguments[1]));
  if (count > 2) options.token = arguments[2];
  try {
    lockstep::testing::FakeJobFeed feed;
    const auto server = lockstep::monitor::serve_dashboard(feed, options);
    std::printf("serving %s\n", server->url().c_str());
    std::fflush(stdout);
    wait_for_end();
    feed.end_training();
    const auto seen = server->statistics();
    std::printf("%lu connections, %lu requests, %lu given up\n", seen.connections, seen.requests,
                seen.given_up);
  } catch (const lockstep::Error& error) {
    std::fputs(describe(error).c_str(), stderr);
    return exit_code(error.kind());
  }
}
