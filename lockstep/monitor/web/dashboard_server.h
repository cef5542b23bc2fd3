#pragma once

#include <chrono>
#include <cstdint>
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
  int most_connections = 256;
  int most_streams = 64;
  std::chrono::milliseconds patience{
      5000};  ///< limit for a request; four times as long for answers
};

/// What has happened to a server so far.
struct DashboardStatistics {
  std::uint64_t requests = 0;     ///< complete requests, whatever the answer
  std::uint64_t connections = 0;  ///< accepted connections
  std::uint64_t given_up = 0;     ///< connections that were closed as too slow, or to make room
  int open_connections = 0;
  int open_streams = 0;
};

/// A web server for the dashboard: a page, the state of the jobs as JSON, and a stream of states.
///
/// All that the server sends is in memory: no request can name a file. The server answers GET and
/// HEAD, and cannot act on a job. An address beyond loopback requires a token, and each request
/// must have a `Host` header with a name of this machine.
///
/// libmicrohttpd answers all browsers from one thread. A second thread asks the feed, publishes the
/// state and closes connections that are too slow. Connections, their memory and streams are
/// limited. A request or an answer that takes too long is closed. If connections run out, the
/// oldest incomplete request makes room, or else the oldest answer. A stream with a slow reader
/// skips states; a stream without progress is closed. The number of connections for each address is
/// not limited, because behind an ssh tunnel all clients have the same address.
///
/// libmicrohttpd is used because cpp-httplib needs a thread for each connection, and Boost.Beast
/// has no server.
///
/// The destructor asks the feed a last time, gives the streams 300 ms to send the last state, and
/// stops the server. Any thread may call the other members.
class DashboardServer {
 public:
  virtual ~DashboardServer() = default;

  virtual int port() const = 0;
  /// The URL for a browser, with the token if there is one.
  virtual std::string url() const = 0;
  virtual DashboardStatistics statistics() const = 0;
};

/// Asks the feed once, and starts to serve. The feed must outlive the server.
///
/// Errors: `Options`; `Io` if the address cannot be used; `Unavailable` in a build without
/// libmicrohttpd.
std::unique_ptr<DashboardServer> serve_dashboard(JobFeed& feed, const DashboardOptions& options);

/// Whether this build contains the server.
bool dashboard_is_built() noexcept;

}  // namespace lockstep::monitor
