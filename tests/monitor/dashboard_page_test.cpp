// The page in a real browser.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "lockstep/monitor/web/dashboard_server.h"
#include "tests/monitor/dashboard_process.h"
#include "tests/support/subprocess.h"

namespace lockstep::monitor {
namespace {

using namespace std::chrono_literals;

TEST(DashboardPageTest, ShowsMovingCurvesAtTwoWidthsToEyesKeysAndScreenReaders) {
  if (!dashboard_is_built()) GTEST_SKIP() << "this build has no web server";
  const testing::DashboardProcess dashboard({"200"});
  testing::Subprocess browser(
      {"/usr/bin/python3", BROWSE_DASHBOARD_SCRIPT, dashboard.url(), SCREENSHOT_FOLDER});
  const auto result = browser.wait(280s);
  if (result.exit_code == 77) GTEST_SKIP() << "chromium or chromium-driver is not installed";
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const auto* name : {"/dashboard-1280.png", "/dashboard-390.png"}) {
    EXPECT_GT(std::filesystem::file_size(std::string(SCREENSHOT_FOLDER) + name), 10'000U) << name;
  }
}

TEST(DashboardPageTest, KeepsAJobOnTheScreenThatHasEndedWithTheDashboard) {
  if (!dashboard_is_built()) GTEST_SKIP() << "this build has no web server";
  testing::DashboardProcess dashboard({"200"});
  testing::Subprocess browser(
      {"/usr/bin/python3", BROWSE_DASHBOARD_SCRIPT, dashboard.url(), SCREENSHOT_FOLDER, "ended"});
  if (browser.wait_for("ready for the end", 200s)) dashboard.process().signal(SIGTERM);
  const auto result = browser.wait(80s);
  if (result.exit_code == 77) GTEST_SKIP() << "chromium or chromium-driver is not installed";
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

}  // namespace
}  // namespace lockstep::monitor
