// dashboard_double [INTERVAL_MS [ADDRESS [TOKEN]]]: serves the dashboard of jobs that are not
// there, says where, and ends when its standard input does.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/monitor/web/dashboard_server.h"
#include "tests/support/fake_job_feed.h"

int main(int count, char** arguments) {
  lockstep::monitor::DashboardOptions options;
  if (count > 1) options.interval = std::chrono::milliseconds(std::atoi(arguments[1]));
  if (count > 2) options.address = arguments[2];
  if (count > 3) options.token = arguments[3];
  try {
    lockstep::testing::FakeJobFeed feed;
    const lockstep::monitor::DashboardServer server(feed, options);
    std::printf("serving %s\n", server.url().c_str());
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
  } catch (const lockstep::Error& error) {
    std::fputs(describe(error).c_str(), stderr);
    return exit_code(error.kind());
  }
}
