#include "tests/comm/slow_link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/comm/tcp/socket.h"

namespace lockstep::testing {
namespace {

UniqueFd connect_to(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw io_error("connect");
  }
  return fd;
}

}  // namespace

SlowLink::SlowLink(int target_port, std::chrono::milliseconds delay)
    : target_port_(target_port),
      delay_(delay),
      listener_(comm::tcp::listen_at({"127.0.0.1", 0})),
      port_(comm::tcp::port_of(listener_.get())),
      server_([this] { serve(); }) {}

SlowLink::~SlowLink() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  server_.join();
  for (const auto& connection : connections_) ::shutdown(connection.get(), SHUT_RDWR);
  for (auto& pump : pumps_) pump.join();
}

void SlowLink::serve() {
  while (true) {
    UniqueFd near(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!near && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    if (!near) return;
    auto far = connect_to(target_port_);
    pumps_.emplace_back([this, from = near.get(), to = far.get()] { pump(from, to); });
    pumps_.emplace_back([this, from = far.get(), to = near.get()] { pump(from, to); });
    connections_.push_back(std::move(near));
    connections_.push_back(std::move(far));
  }
}

void SlowLink::pump(int from, int to) const {
  std::array<char, 65536> block;
  ssize_t count = 0;
  while ((count = ::recv(from, block.data(), block.size(), 0)) > 0) {
    std::this_thread::sleep_for(delay_);
    for (ssize_t sent = 0; sent < count;) {
      const auto more =
          ::send(to, block.data() + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += more;
    }
  }
  ::shutdown(to, SHUT_WR);
}

}  // namespace lockstep::testing
