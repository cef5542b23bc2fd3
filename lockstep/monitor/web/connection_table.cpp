#include "lockstep/monitor/web/connection_table.h"

#include <sys/socket.h>

namespace lockstep::monitor {

void ConnectionTable::add(Key key, int fd, Clock::time_point now) {
  connections_[key] = {.fd = fd, .awaits = Awaits::Request, .since = now, .is_given_up = false};
  // One place stays free: libmicrohttpd accepts nobody when all are taken, and then nobody new
  // would come to make room.
  if (connections_.size() + 1 >= limits_.most) make_room(key);
}

void ConnectionTable::answering(Key key, Clock::time_point now) {
  set(key, Awaits::Reader, now);
}

void ConnectionTable::resting(Key key) {
  set(key, Awaits::Nothing, {});
}

void ConnectionTable::awaiting_request(Key key, Clock::time_point now) {
  set(key, Awaits::Request, now);
}

void ConnectionTable::set(Key key, Awaits awaits, Clock::time_point now) {
  const auto found = connections_.find(key);
  if (found == connections_.end()) return;
  found->second.awaits = awaits;
  found->second.since = now;
}

void ConnectionTable::give_up(Connection& connection) {
  if (connection.is_given_up) return;
  connection.is_given_up = true;
  ++given_up_;
  ::shutdown(connection.fd, SHUT_RDWR);
}

/// Who does not read may be slow for a reason, and who sends no request has none: so that one goes
/// first.
void ConnectionTable::make_room(Key newest) {
  for (const auto awaits : {Awaits::Request, Awaits::Reader}) {
    Connection* oldest = nullptr;
    for (auto& [key, connection] : connections_) {
      if (key == newest || connection.awaits != awaits || connection.is_given_up) continue;
      if (oldest == nullptr || connection.since < oldest->since) oldest = &connection;
    }
    if (oldest == nullptr) continue;
    give_up(*oldest);
    return;
  }
}

bool ConnectionTable::is_overdue(const Connection& connection, Clock::time_point now) const {
  if (connection.awaits == Awaits::Nothing) return false;
  const auto limit = connection.awaits == Awaits::Request ? limits_.request : limits_.answer;
  return now - connection.since > limit;
}

void ConnectionTable::give_up_overdue(Clock::time_point now) {
  for (auto& [key, connection] : connections_) {
    if (is_overdue(connection, now)) give_up(connection);
  }
}

}  // namespace lockstep::monitor
