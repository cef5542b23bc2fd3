#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <unordered_map>

namespace lockstep::monitor {

/// The connections of a server, and since when the server waits for each.
///
/// libmicrohttpd closes connections that are idle. A client that sends one byte now and then is
/// never idle, so this table limits the total time of a request and of an answer. If almost all
/// connections are in use, the table closes one for each new connection. Streams have no limit
/// here.
///
/// The caller locks. The sockets belong to libmicrohttpd: to close a connection, the table shuts
/// its socket down.
class ConnectionTable {
 public:
  using Clock = std::chrono::steady_clock;
  using Key = const void*;  ///< libmicrohttpd's connection

  struct Limits {
    std::size_t most = 256;
    std::chrono::milliseconds request{5000};  ///< until a request is complete
    std::chrono::milliseconds answer{20000};  ///< until the client has received the answer
  };

  explicit ConnectionTable(Limits limits) : limits_(limits) {}

  /// Adds a connection that will send a request. If there is no room for another connection, closes
  /// the oldest incomplete request, or if there is none, the oldest answer.
  void add(Key key, int fd, Clock::time_point now) {
    connections_[key] = {.fd = fd, .since = now};
    // One place stays free, because libmicrohttpd accepts no connection if all places are taken.
    // A client may have a reason to read an answer slowly, but none to send a request slowly.
    const bool has_room = connections_.size() + 1 < limits_.most;
    if (!has_room && !close_oldest(State::Request, key)) close_oldest(State::Answer, key);
  }
  void remove(Key key) { connections_.erase(key); }

  void begin_request(Key key, Clock::time_point now) { set(key, State::Request, now); }
  void begin_answer(Key key, Clock::time_point now) { set(key, State::Answer, now); }
  void begin_stream(Key key) { set(key, State::Stream, {}); }

  void close_overdue(Clock::time_point now) {
    for (auto& [key, connection] : connections_) {
      const auto limit = connection.state == State::Request ? limits_.request : limits_.answer;
      if (connection.state != State::Stream && now - connection.since > limit) close(connection);
    }
  }

  std::size_t size() const noexcept { return connections_.size(); }
  std::size_t closed() const noexcept { return closed_; }

 private:
  enum class State { Request, Answer, Stream };
  struct Connection {
    int fd = -1;
    State state = State::Request;
    Clock::time_point since{};
    bool is_closed = false;
  };

  void set(Key key, State state, Clock::time_point now) {
    const auto found = connections_.find(key);
    if (found == connections_.end()) return;
    found->second.state = state;
    found->second.since = now;
  }

  void close(Connection& connection) {
    if (connection.is_closed) return;
    connection.is_closed = true;
    ++closed_;
    ::shutdown(connection.fd, SHUT_RDWR);
  }

  bool close_oldest(State state, Key newest) {
    Connection* oldest = nullptr;
    for (auto& [key, connection] : connections_) {
      if (key == newest || connection.state != state || connection.is_closed) continue;
      if (oldest == nullptr || connection.since < oldest->since) oldest = &connection;
    }
    if (oldest != nullptr) close(*oldest);
    return oldest != nullptr;
  }

  Limits limits_;
  std::unordered_map<Key, Connection> connections_;
  std::size_t closed_ = 0;
};

}  // namespace lockstep::monitor
