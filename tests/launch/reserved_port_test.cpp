#include "lockstep/launch/start/reserved_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <set>
#include <vector>

namespace lockstep::launch {
namespace {

/// Listens as servers do. Port 0 takes any; returns the port, 0 where it failed.
int listen_on(const UniqueFd& socket, int port) {
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (::bind(socket.get(), raw, size) != 0 || ::listen(socket.get(), 8) != 0) return 0;
  ::getsockname(socket.get(), raw, &size);
  return ntohs(address.sin_port);
}

UniqueFd make_socket() {
  return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

TEST(ReservedPortTest, LetsAProgramOfTheJobListenOnIt) {
  const ReservedPort reserved;
  const auto socket = make_socket();
  EXPECT_EQ(listen_on(socket, reserved.port()), reserved.port());
}

TEST(ReservedPortTest, IsGivenToNobodyElse) {
  std::set<int> ports;
  std::vector<std::unique_ptr<ReservedPort>> reserved;
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 500; ++i) {
    reserved.push_back(std::make_unique<ReservedPort>());
    EXPECT_TRUE(ports.insert(reserved.back()->port()).second);
    strangers.push_back(make_socket());
    EXPECT_TRUE(ports.insert(listen_on(strangers.back(), 0)).second);
  }
}

}  // namespace
}  // namespace lockstep::launch
