#include "bench/comm/protocol.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep::bench {

sockaddr_un driver_address(const std::string& folder) {
  const auto path = folder + "/driver";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error(ErrorKind::Io,
                fmt::format("bench comm: the path of a socket has at most {} letters, found {}: {}",
                            sizeof address.sun_path - 1, path.size(), path),
                "set TMPDIR to a folder with a shorter path, such as /tmp");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

bool send_packet(int socket, std::span<const std::byte> packet) {
  ssize_t count = 0;
  do {
    count = ::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return true;
  if (errno == EPIPE || errno == ECONNRESET) return false;
  throw io_error("bench comm: send");
}

std::size_t receive_packet(int socket, std::span<std::byte> into) {
  ssize_t count = 0;
  do {
    count = ::recv(socket, into.data(), into.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno != ECONNRESET) throw io_error("bench comm: receive");
  return static_cast<std::size_t>(std::max<ssize_t>(0, count));
}

}  // namespace lockstep::bench
