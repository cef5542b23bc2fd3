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

/// Blocks the signals before the server starts its threads, so that only this thread receives them.
sigset_t block_end_signals() {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  return ends;
}

}  // namespace

int main(int count, char** arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  lockstep::monitor::DashboardOptions options;
  if (count > 1) options.interval = std::chrono::milliseconds(std::atoi(arguments[1]));
  if (count > 2) options.token = arguments[2];
  const auto ends = block_end_signals();
  try {
    lockstep::testing::FakeJobFeed feed;
    const auto server = lockstep::monitor::serve_dashboard(feed, options);
    std::printf("serving %s\n", server->url().c_str());
    std::fflush(stdout);
    int signal = 0;
    ::sigwait(&ends, &signal);
    feed.end_training();
  } catch (const lockstep::Error& error) {
    std::fputs(describe(error).c_str(), stderr);
    return exit_code(error.kind());
  }
}
