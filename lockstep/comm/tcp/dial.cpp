#include "lockstep/comm/tcp/dial.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace lockstep::comm::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A wait for a socket, which ends at some time.
struct Patience {
  Clock::time_point end;
  const std::function<void()>& meanwhile;

  /// Returns whether the socket can do this before the time is over.
  bool wait(int socket, short events) const {
    pollfd waiting{.fd = socket, .events = events, .revents = 0};
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      const auto part = std::clamp(left, 0ms, 100ms);
      const int result = ::poll(&waiting, 1, static_cast<int>(part.count()));
      if (result > 0) return true;
      if (left.count() <= 0 || (result < 0 && errno != EINTR)) return false;
      if (meanwhile) meanwhile();
    }
  }
};

bool connect(int socket, const SocketAddress& address, const Patience& patience) {
  if (::connect(socket, address.get(), address.size()) == 0) return true;
  if (errno != EINPROGRESS || !patience.wait(socket, POLLOUT)) return false;
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0;
}

bool shake_hands(int socket, ClientHandshake& handshake, const Patience& patience) {
  std::array<std::byte, 128> bytes;
  while (handshake.state() == HandshakeState::Waiting) {
    const auto count =
        ::recv(socket, bytes.data(), std::min(bytes.size(), handshake.wanted()), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && !would_wait())) return false;
    if (count < 0) {
      if (!patience.wait(socket, POLLIN)) return false;
      continue;
    }
    handshake.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
    if (!send_at_once(socket, handshake.take_output())) return false;
  }
  return handshake.state() == HandshakeState::Done;
}

}  // namespace

UniqueFd dial(const SocketAddress& address, const Secret& secret, const Payload& payload,
              std::chrono::milliseconds limit, const std::function<void()>& meanwhile) {
  const Patience patience{Clock::now() + limit, meanwhile};
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || !connect(socket.get(), address, patience)) return {};
  make_prompt(socket.get());
  ClientHandshake handshake(secret, payload);
  if (!shake_hands(socket.get(), handshake, patience)) return {};
  return socket;
}

}  // namespace lockstep::comm::tcp
