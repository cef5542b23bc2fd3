#include "lockstep/launch/start/reserved_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

/// Binds a free port on every address. 0 where the address family is not to be had here.
template <typename Address>
int bind_any(const UniqueFd& socket, Address address) {
  if (!socket) return 0;
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (::bind(socket.get(), raw, size) != 0) return 0;
  if (::getsockname(socket.get(), raw, &size) != 0) return 0;
  if constexpr (std::is_same_v<Address, sockaddr_in6>) {
    return ntohs(address.sin6_port);
  } else {
    return ntohs(address.sin_port);
  }
}

}  // namespace

ReservedPort::ReservedPort() {
  // An IPv6 socket without V6ONLY covers both families.
  socket_.reset(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  port_ = bind_any(socket_, v6);
  if (port_ != 0) return;

  socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  port_ = bind_any(socket_, v4);
  if (port_ == 0) throw io_error("run: no free TCP port for the job's processes to meet on");
}

}  // namespace lockstep::launch
