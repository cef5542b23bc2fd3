#pragma once

#include <chrono>
#include <cstddef>
#include <unordered_map>

namespace lockstep::monitor {

/// Knows of each connection what it is waited for, and decides who has been waited for long enough.
///
/// A client that sends a byte now and then is never idle, so a limit on idleness does not get rid
/// of it: what counts here is the time since the connection, or its last answer, began. One thread
/// uses it; sockets belong to whoever adds them.
class ConnectionTable {
 public:
  using Clock = std::chrono::steady_clock;
  /// What stands for a connection: its address in libmicrohttpd.
  using Key = const void*;

  struct Limits {
    std::size_t most = 256;
    std::chrono::milliseconds request{5000};  ///< until a request is complete
    std::chrono::milliseconds answer{20000};  ///< until its reader has taken the answer
  };

  explicit ConnectionTable(Limits limits) : limits_(limits) {}

  /// A new connection, of which a request is awaited. Where they run out, the one whose request has
  /// been awaited longest is given up; where there is none, the one whose reader has.
  void add(Key key, int fd, Clock::time_point now);
  void remove(Key key) { connections_.erase(key); }

  /// The request is complete, and is being answered. Of a stream, whose end nobody awaits, each
  /// part that is taken starts anew.
  void answering(Key key, Clock::time_point now);
  /// All of the stream was taken so far.
  void resting(Key key);
  /// The answer was taken; the next request of the same connection is awaited.
  void awaiting_request(Key key, Clock::time_point now);

  /// Gives up those whose time is over: shuts their sockets down, upon which libmicrohttpd closes
  /// them.
  void give_up_overdue(Clock::time_point now);

  std::size_t size() const noexcept { return connections_.size(); }
  std::size_t given_up() const noexcept { return given_up_; }

 private:
  enum class Awaits { Request, Reader, Nothing };
  struct Connection {
    int fd = -1;
    Awaits awaits = Awaits::Request;
    Clock::time_point since{};
    bool is_given_up = false;
  };

  void set(Key key, Awaits awaits, Clock::time_point now);
  void give_up(Connection& connection);
  void make_room(Key newest);
  bool is_overdue(const Connection& connection, Clock::time_point now) const;

  Limits limits_;
  std::unordered_map<Key, Connection> connections_;
  std::size_t given_up_ = 0;
};

}  // namespace lockstep::monitor
