#include "lockstep/base/error.h"
#include "lockstep/monitor/web/dashboard_server.h"

namespace lockstep::monitor {

bool dashboard_is_built() noexcept {
  return false;
}

std::unique_ptr<DashboardServer> serve_dashboard(JobFeed&, const DashboardOptions&) {
  throw Error(ErrorKind::Unavailable, "dashboard: this build has no web server",
              "install libmicrohttpd-dev and libjs-chart.js, and configure with "
              "-DLOCKSTEP_WITH_DASHBOARD=ON");
}

}  // namespace lockstep::monitor
