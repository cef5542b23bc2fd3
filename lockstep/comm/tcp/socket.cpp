#include "lockstep/comm/tcp/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::comm::tcp {

SocketAddress::SocketAddress(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    throw Error(ErrorKind::Options,
                fmt::format("tcp: expected an address in numbers, found '{}'", address),
                "such as 10.0.0.1 or fe80::1%eth0");
  }
  std::memcpy(&storage_, found->ai_addr, found->ai_addrlen);
  size_ = found->ai_addrlen;
  ::freeaddrinfo(found);
  text_ = family() == AF_INET6 ? fmt::format("[{}]:{}", address, port)
                               : fmt::format("{}:{}", address, port);
}

UniqueFd listen_at(const SocketAddress& address) {
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || ::bind(socket.get(), address.get(), address.size()) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    throw io_error("tcp: listen at " + address.text());
  }
  return socket;
}

int port_of(int socket) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return 0;
}

void make_prompt(int socket) noexcept {
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // Buffers are left to the kernel, which lets them grow to megabytes as the line can use them;
  // asking for a size ends that, at what net.core.wmem_max allows.
}

bool send_at_once(int socket, std::span<const std::byte> bytes) noexcept {
  return bytes.empty() || ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                              std::ssize(bytes);
}

bool would_wait() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace lockstep::comm::tcp
