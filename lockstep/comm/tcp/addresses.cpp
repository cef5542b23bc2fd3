#include "lockstep/comm/tcp/addresses.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/comm/tcp/socket.h"

namespace lockstep::comm::tcp {
namespace {

using Resolved = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Resolved resolve(const std::string& name, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) found = nullptr;
  return {found, ::freeaddrinfo};
}

std::string to_text(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return {};
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  // An IPv4 connection to a socket for both kinds.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view found(text.data());
  return std::string(found.starts_with(kMapped) ? found.substr(kMapped.size()) : found);
}

}  // namespace

std::vector<std::string> addresses_of(const std::string& host) {
  std::vector<std::string> addresses;
  const auto found = resolve(host, AI_ADDRCONFIG);
  for (const auto* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    auto text = to_text(entry->ai_addr, entry->ai_addrlen);
    if (!text.empty() && std::ranges::find(addresses, text) == addresses.end()) {
      addresses.push_back(std::move(text));
    }
  }
  return addresses;
}

std::string address_towards(const std::string& address) {
  // Any port will do: a datagram socket that is connected sends nothing.
  constexpr int kPort = 9;
  const SocketAddress to(address, kPort);
  const UniqueFd socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to.get(), to.size()) != 0) return {};
  return local_address(socket.get());
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

std::string local_address(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(socket, raw, &length) != 0) return {};
  return to_text(raw, length);
}

}  // namespace lockstep::comm::tcp
