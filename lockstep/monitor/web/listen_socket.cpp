#include "lockstep/monitor/web/listen_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "lockstep/base/error.h"

namespace lockstep::monitor {
namespace {

constexpr int kBacklog = 128;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses parse_address(const std::string& address, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const auto* const host = address == "localhost" ? "127.0.0.1" : address.c_str();
  if (::getaddrinfo(host, std::to_string(port).c_str(), &wanted, &found) != 0) {
    throw Error(
        ErrorKind::Options,
        fmt::format("dashboard: expected an address as 127.0.0.1 or ::1, found '{}'", address),
        "give the address of this machine as numbers, or 0.0.0.0 for all of them");
  }
  return {found, &::freeaddrinfo};
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  // The port stands at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

ListenSocket listen_at(const std::string& address, int port) {
  if (port < 0 || port > 65535) {
    throw Error(
        ErrorKind::Options,
        fmt::format("dashboard: expected a port of 1 to 65535, or 0 for a free one, found {}",
                    port));
  }
  const auto found = parse_address(address, port);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  // Else a server that was just ended would keep the port for a minute.
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    const auto why = io_error(fmt::format("dashboard: port {} of {}", port, address));
    throw Error(why.kind(), why.what(), "choose another port, or 0 for one that is free");
  }
  const int got = port_of(fd.get());
  return {.fd = std::move(fd), .port = got};
}

}  // namespace lockstep::monitor
