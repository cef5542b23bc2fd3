#include "lockstep/base/error.h"
#include "lockstep/monitor/web/dashboard_server.h"

namespace lockstep::monitor {

class DashboardServer::Service {};

bool dashboard_is_built() noexcept {
  return false;
}

DashboardServer::DashboardServer(JobFeed&, const DashboardOptions&) {
  throw Error(ErrorKind::Unavailable, "dashboard: this build has no web server",
              "install libmicrohttpd-dev and libjs-chart.js, and configure with "
              "-DLOCKSTEP_WITH_DASHBOARD=ON");
}

DashboardServer::~DashboardServer() = default;

int DashboardServer::port() const noexcept {
  return 0;
}

std::string DashboardServer::url() const {
  return {};
}

DashboardStatistics DashboardServer::statistics() const noexcept {
  return {};
}

}  // namespace lockstep::monitor
