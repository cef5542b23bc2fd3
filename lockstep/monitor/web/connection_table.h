#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <unordered_map>

namespace lockstep::monitor {

/// The connections of a server, each with the time until which the server waits for the client.
///
/// libmicrohttpd closes connections that are idle. A client that sends one byte now and then is
/// never idle, so this table limits the total time of a request and of an answer. If almost all
/// connections are in use, each new connection closes the one with the earliest deadline. Requests
/// have a shorter limit than answers: a client may have a reason to read slowly, but none to send
/// slowly.
///
/// The caller locks. The sockets belong to libmicrohttpd: to close a connection, the table shuts
/// its socket down and forgets the connection.
class ConnectionTable {
 public:
  using Clock = std::chrono::steady_clock;
  using Key = const void*;  ///< libmicrohttpd's connection

  static constexpr auto kNoDeadline = Clock::time_point::max();

  explicit ConnectionTable(std::size_t most) : most_(most) {}

  void add(Key key, int fd, Clock::time_point deadline) {
    // One place stays free, because libmicrohttpd accepts no connection if all places are taken.
    if (connections_.size() + 2 >= most_) close_next();
    connections_[key] = {.fd = fd, .deadline = deadline};
  }
  void remove(Key key) { connections_.erase(key); }

  void set_deadline(Key key, Clock::time_point deadline) {
    const auto found = connections_.find(key);
    if (found != connections_.end()) found->second.deadline = deadline;
  }

  void close_overdue(Clock::time_point now) {
    while (close_next(now)) {
    }
  }

  bool is_empty() const noexcept { return connections_.empty(); }

 private:
  struct Connection {
    int fd = -1;
    Clock::time_point deadline{};
  };

  /// Closes the connection with the earliest deadline, if that is before `limit`. Returns whether
  /// it closed one.
  bool close_next(Clock::time_point limit = kNoDeadline) {
    const auto next = std::ranges::min_element(
        connections_, {}, [](const auto& entry) { return entry.second.deadline; });
    if (next == connections_.end() || next->second.deadline >= limit) return false;
    ::shutdown(next->second.fd, SHUT_RDWR);
    connections_.erase(next);
    return true;
  }

  std::size_t most_;
  std::unordered_map<Key, Connection> connections_;
};

}  // namespace lockstep::monitor
