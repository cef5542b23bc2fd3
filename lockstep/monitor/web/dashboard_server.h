#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

struct DashboardOptions {
  std::string address = "127.0.0.1";         ///< as numbers, or "localhost"
  int port = 0;                              ///< 0: a free port
  std::optional<std::string> token{};        ///< required if other machines can reach the address
  std::vector<std::string> names{};          ///< of this machine, which browsers may use in the URL
  std::chrono::milliseconds interval{1000};  ///< between two looks at the feed
  unsigned most_connections = 256;           ///< at least 8
  unsigned most_waiting = 64;  ///< requests that wait for news; at most half of the connections
  /// The limit for a request. Twice as long for a wait for news, four times as long for an answer.
  std::chrono::milliseconds patience{5000};
};

/// A web server for the dashboard: a page, and the jobs as JSON (`DashboardState`).
///
/// All that the server sends is in memory: no request can name a file. The server answers GET and
/// HEAD, and cannot act on a job. An address beyond loopback requires a token, and each request
/// must have a `Host` header with a name of this machine.
///
/// `GET /api/jobs` returns the jobs with an entity tag. If a client sends the tag back
/// (`If-None-Match`) and is ready to wait (`Prefer: wait`), the server answers when the jobs have
/// changed, or after ten seconds. So each page shows a change at once.
///
/// libmicrohttpd answers all browsers from one thread. A second thread asks the feed, answers the
/// waiting requests and closes connections that are too slow. Connections, their memory and waiting
/// requests are limited. A request or an answer that takes too long is closed (`ConnectionTable`).
/// The number of connections for each address is not limited, because behind an ssh tunnel all
/// clients have the same address.
///
/// libmicrohttpd is used because cpp-httplib needs a thread for each connection, and Boost.Beast
/// has no server.
///
/// The threads inherit the caller's signal mask. The destructor asks the feed a last time, gives
/// the pages 300 ms to fetch the last state, and stops the server.
class DashboardServer {
 public:
  virtual ~DashboardServer() = default;

  virtual int port() const = 0;
  /// The URL for a browser, with the token if there is one.
  virtual std::string url() const = 0;
};

/// Asks the feed once, and starts to serve. The feed must outlive the server.
///
/// Errors: `Options`; `Io` if the address cannot be used; `Unavailable` in a build without
/// libmicrohttpd.
std::unique_ptr<DashboardServer> serve_dashboard(JobFeed& feed, const DashboardOptions& options);

/// Whether this build contains the server.
bool dashboard_is_built() noexcept;

}  // namespace lockstep::monitor
