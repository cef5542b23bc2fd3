#include "lockstep/monitor/web/connection_table.h"

#include <sys/socket.h>

namespace lockstep::monitor {

void ConnectionTable::add(Key key, int fd, Clock::time_point now) {
  connections_[key] = {.fd = fd, .since = now};
  // One place stays free, because libmicrohttpd accepts no connection if all places are taken.
  if (connections_.size() + 1 >= limits_.most) make_room(key);
}

void ConnectionTable::set(Key key, State state, Clock::time_point now) {
  const auto found = connections_.find(key);
  if (found == connections_.end()) return;
  found->second.state = state;
  found->second.since = now;
}

void ConnectionTable::close(Connection& connection) {
  if (connection.is_closed) return;
  connection.is_closed = true;
  ++closed_;
  ::shutdown(connection.fd, SHUT_RDWR);
}

/// A client may have a reason to read an answer slowly, but none to send a request slowly.
void ConnectionTable::make_room(Key newest) {
  for (const auto state : {State::Request, State::Answer}) {
    Connection* oldest = nullptr;
    for (auto& [key, connection] : connections_) {
      if (key == newest || connection.state != state || connection.is_closed) continue;
      if (oldest == nullptr || connection.since < oldest->since) oldest = &connection;
    }
    if (oldest == nullptr) continue;
    close(*oldest);
    return;
  }
}

void ConnectionTable::close_overdue(Clock::time_point now) {
  for (auto& [key, connection] : connections_) {
    if (connection.state == State::Stream) continue;
    const auto limit = connection.state == State::Request ? limits_.request : limits_.answer;
    if (now - connection.since > limit) close(connection);
  }
}

}  // namespace lockstep::monitor
