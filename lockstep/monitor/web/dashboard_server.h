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
  std::string address = "127.0.0.1";   ///< as numbers, or "localhost"
  int port = 0;                        ///< 0: one that is free
  std::optional<std::string> token{};  ///< needed for an address that others can reach
  std::vector<std::string>
      names{};  ///< by which browsers may call this machine, beside its address
  std::chrono::milliseconds interval{1000};  ///< between two looks at the feed
  int most_connections = 256;
  int most_streams = 64;
  std::chrono::milliseconds patience{5000};  ///< with a request that is not complete yet
};

/// What has happened to a server so far.
struct DashboardStatistics {
  std::uint64_t requests = 0;     ///< that were complete, whatever the answer
  std::uint64_t connections = 0;  ///< that were accepted
  std::uint64_t given_up = 0;     ///< connections that took too long, or were in the way
  int open_connections = 0;
  int open_streams = 0;
};

/// A web server for the dashboard: a page, and a stream of what a feed tells.
///
/// Everything that it serves is in memory before the first request: no request can name a file. It
/// answers GET and HEAD, and has no way to act on a job. Anything beyond loopback needs a token,
/// and every request a `Host` that is ours.
///
/// One thread does all of it and waits for nobody: connections, memory for each, and streams are
/// bounded; a request that is not complete in time is given up, and where connections run out the
/// oldest incomplete one makes room, or else the oldest answer that nobody reads; a stream whose
/// reader is slow skips what it missed.
///
/// HTTP is libmicrohttpd's. Not cpp-httplib's, whose connections each hold a thread, from a pool
/// that as many slow clients, or as many open pages, would empty; nor Boost.Beast's, which would
/// leave the server itself to be written.
///
/// Errors of the constructor: `Options`, `Io` where the address cannot be used, `Unavailable` in a
/// build without libmicrohttpd.
class DashboardServer {
 public:
  /// Serves from now on. The feed must outlive it.
  DashboardServer(JobFeed& feed, const DashboardOptions& options);
  DashboardServer(const DashboardServer&) = delete;
  DashboardServer& operator=(const DashboardServer&) = delete;
  /// Ends all streams and connections.
  ~DashboardServer();

  int port() const noexcept;
  /// What a user types into a browser, with the token where one is needed.
  std::string url() const;
  DashboardStatistics statistics() const noexcept;

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

/// Whether this build can serve a dashboard.
bool dashboard_is_built() noexcept;

}  // namespace lockstep::monitor
