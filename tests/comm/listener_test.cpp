#include "lockstep/comm/tcp/listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/tcp/dial.h"
#include "lockstep/comm/tcp/socket.h"
#include "tests/support/errors.h"

namespace lockstep::comm::tcp {
namespace {

using namespace std::chrono_literals;

/// A listener at the loopback device, served as often as a test wants.
class ListenerTest : public ::testing::Test {
 protected:
  SocketAddress address() const { return {"127.0.0.1", port_}; }

  UniqueFd connect() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), address().get(), address().size()), 0);
    return socket;
  }

  /// Dials on another thread while it serves.
  UniqueFd dial_in(const Secret& secret, std::byte first = std::byte{1}) {
    Payload payload{};
    payload[0] = first;
    UniqueFd socket;
    std::atomic<bool> is_over = false;
    std::thread client([&] {
      socket = dial(address(), secret, payload, 20s);
      is_over = true;
    });
    const auto end = std::chrono::steady_clock::now() + 30s;
    const auto is_missing = [&] { return socket && welcomed_.empty(); };
    while (std::chrono::steady_clock::now() < end && (!is_over || is_missing())) {
      listener_.serve(10ms);
    }
    client.join();
    return socket;
  }

  UniqueFd socket_ = listen_at({"127.0.0.1", 0});
  int port_ = port_of(socket_.get());
  Secret secret_ = Secret::random();
  std::vector<UniqueFd> welcomed_;
  Listener listener_{
      std::move(socket_), secret_,
      [](const Payload& payload) { return payload[0] == std::byte{1}; },
      [this](UniqueFd socket, const Payload&) { welcomed_.push_back(std::move(socket)); }};
};

/// Whether the other side has closed a connection.
bool is_closed(int socket) {
  pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
  std::array<char, 256> bytes;
  while (::poll(&readable, 1, 0) > 0) {
    if (::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT) <= 0) return true;
  }
  return false;
}

TEST_F(ListenerTest, WelcomesWhoeverKnowsTheSecret) {
  const auto socket = dial_in(secret_);
  ASSERT_TRUE(socket);
  ASSERT_EQ(welcomed_.size(), 1U);
  EXPECT_EQ(::send(socket.get(), "data", 4, 0), 4);
  std::array<char, 4> bytes{};
  pollfd readable{.fd = welcomed_[0].get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&readable, 1, 20000), 1);
  EXPECT_EQ(::recv(welcomed_[0].get(), bytes.data(), bytes.size(), 0), 4);
  EXPECT_EQ(std::string(bytes.data(), 4), "data");
}

TEST_F(ListenerTest, SendsAwayWhoeverDoesNot) {
  EXPECT_FALSE(dial_in(Secret::random()));
  EXPECT_TRUE(welcomed_.empty());
  EXPECT_EQ(listener_.num_pending(), 0U);
}

TEST_F(ListenerTest, SendsAwayWhoeverIsNotExpected) {
  EXPECT_FALSE(dial_in(secret_, std::byte{2}));
  EXPECT_TRUE(welcomed_.empty());
}

TEST_F(ListenerTest, KeepsAtMostSixtyFourWaitingAndDropsTheOldest) {
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 500; ++i) {
    strangers.push_back(connect());
    listener_.serve(0ms);
    EXPECT_LE(listener_.num_pending(), Listener::kMostPending);
  }
  while (!is_closed(strangers[435].get())) listener_.serve(10ms);
  EXPECT_EQ(listener_.num_pending(), Listener::kMostPending);
  EXPECT_TRUE(is_closed(strangers.front().get()));
  EXPECT_FALSE(is_closed(strangers.back().get()));
  EXPECT_TRUE(dial_in(secret_)) << "friends get in all the same";
}

TEST_F(ListenerTest, HearsWhoHasAnsweredBeforeItGivesItsPlaceToOthers) {
  const auto friendly = connect();
  listener_.serve(20s);
  Payload payload{std::byte{1}};
  ClientHandshake handshake(secret_, payload);
  const auto answer = [&] {
    std::vector<std::byte> said(handshake.wanted());
    ASSERT_EQ(::recv(friendly.get(), said.data(), said.size(), MSG_WAITALL), std::ssize(said));
    handshake.feed(said);
    const auto words = handshake.take_output();
    ASSERT_EQ(::send(friendly.get(), words.data(), words.size(), 0), std::ssize(words));
  };
  // More than there is room for knock first.
  std::vector<UniqueFd> strangers;
  for (std::size_t i = 0; i < 2 * Listener::kMostPending; ++i) strangers.push_back(connect());
  answer();
  for (int round = 0; round < 20; ++round) listener_.serve(0ms);
  EXPECT_TRUE(is_closed(strangers.front().get()));
  answer();
  for (int round = 0; round < 20; ++round) listener_.serve(10ms);
  EXPECT_EQ(welcomed_.size(), 1U);
}

TEST_F(ListenerTest, ClosesAConnectionThatSendsRandomBytes) {
  const auto stranger = connect();
  const std::string noise(100000, 'x');
  ::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!is_closed(stranger.get()) && std::chrono::steady_clock::now() < end) {
    listener_.serve(10ms);
  }
  EXPECT_TRUE(is_closed(stranger.get()));
  EXPECT_TRUE(dial_in(secret_));
}

TEST_F(ListenerTest, ClosesAConnectionThatSaysTooLittleInTime) {
  const auto stranger = connect();
  const auto begin = std::chrono::steady_clock::now();
  while (!is_closed(stranger.get()) && std::chrono::steady_clock::now() - begin < 30s) {
    // One byte now and then does not earn it more time.
    ::send(stranger.get(), "x", 1, MSG_NOSIGNAL);
    listener_.serve(0ms);
    std::this_thread::sleep_for(100ms);  // else it would soon have said enough to be refused
  }
  const auto time = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(time, Listener::kTimeToProve - 100ms);
  EXPECT_LT(time, Listener::kTimeToProve + 20s);
  EXPECT_EQ(listener_.num_pending(), 0U);
}

TEST_F(ListenerTest, TellsStrangersNothingButThatTheyShouldProveThemselves) {
  const auto stranger = connect();
  listener_.serve(20s);
  std::array<char, 1000> bytes{};
  EXPECT_EQ(::recv(stranger.get(), bytes.data(), bytes.size(), 0), 40);
  const std::string noise(128, 'x');
  ::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  listener_.serve(20s);
  EXPECT_EQ(::recv(stranger.get(), bytes.data(), bytes.size(), 0), 0);
}

TEST(SocketTest, ListensAtAddressesOfBothVersionsAlone) {
  const auto four = listen_at({"127.0.0.1", 0});
  EXPECT_GT(port_of(four.get()), 0);
  const SocketAddress six("::1", 4711);
  EXPECT_EQ(six.text(), "[::1]:4711");
  EXPECT_EQ(SocketAddress("10.0.0.2", 4711).text(), "10.0.0.2:4711");
}

TEST(SocketTest, RefusesNames) {
  testing::expect_error([] { SocketAddress("localhost", 1); }, ErrorKind::Options,
                        "expected an address in numbers, found 'localhost'");
}

TEST(SocketTest, NamesAnAddressThatIsNotHere) {
  const auto listen = [] { listen_at({"192.0.2.1", 0}); };
  testing::expect_error(listen, ErrorKind::Io, "tcp: listen at 192.0.2.1:0");
}

}  // namespace
}  // namespace lockstep::comm::tcp
