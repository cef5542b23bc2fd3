#include "lockstep/comm/tcp/tcp_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstring>
#include <numeric>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/tcp/dial.h"
#include "lockstep/comm/tcp/traffic.h"

namespace lockstep::comm::tcp {
namespace {

using namespace std::chrono_literals;
using hosts::Fabric;
using hosts::Note;
using ::testing::HasSubstr;

const Fabric::LookAround kPatient = [](std::span<const int>) {};

/// Gives up after some looks.
Fabric::LookAround until(int looks) {
  return [left = std::make_shared<int>(looks)](std::span<const int>) {
    if (--*left < 0) throw Error(ErrorKind::Timeout, "enough");
  };
}

/// Leaders of several hosts, each on a thread of its own.
class Leaders {
 public:
  explicit Leaders(int num_hosts) {
    for (int host = 0; host < num_hosts; ++host) {
      listeners_.push_back(listen_at({"127.0.0.1", 0}));
      members_.instances.push_back(host * 2);  // hosts of two instances
      members_.names.push_back(std::string(1, static_cast<char>('a' + host)));
    }
    for (const auto& listener : listeners_) ports_.push_back(port_of(listener.get()));
  }

  std::shared_ptr<TcpNode> node(int host, const std::string& session = "one") {
    auto node = std::make_shared<TcpNode>(
        std::move(listeners_[static_cast<std::size_t>(host)]),
        TcpNode::Job{secret, session, host * 2, static_cast<int>(ports_.size()) * 2});
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      node->set_address(static_cast<int>(i) * 2, {"127.0.0.1", ports_[i]});
    }
    return node;
  }

  template <typename Function>
  void run(Function function) {
    std::vector<std::thread> threads;
    std::barrier end(static_cast<std::ptrdiff_t>(ports_.size()));
    for (int host = 0; host < static_cast<int>(ports_.size()); ++host) {
      threads.emplace_back([&, host] {
        const auto fabric = TcpFabric::of_leaders(node(host), members_, kPatient);
        function(*fabric);
        end.arrive_and_wait();
      });
    }
    for (auto& thread : threads) thread.join();
  }

  const Secret secret = Secret::random();
  const TcpFabric::Members& members() const { return members_; }
  int port(int host) const { return ports_[static_cast<std::size_t>(host)]; }

 private:
  std::vector<UniqueFd> listeners_;
  std::vector<int> ports_;
  TcpFabric::Members members_;
};

/// Bytes that only this pair of hosts has at this place.
std::vector<std::byte> message(int from, int to, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(from * 7 + to * 13));
  }
  return bytes;
}

void exchange_all(Fabric& fabric, std::size_t size, const Fabric::LookAround& look_around) {
  std::vector<std::vector<std::byte>> out;
  std::vector<std::vector<std::byte>> in;
  std::vector<Fabric::Send> sends;
  std::vector<Fabric::Receive> receives;
  for (int other = 0; other < fabric.num_hosts(); ++other) {
    out.push_back(message(fabric.host(), other, size));
    in.emplace_back(size);
    if (other == fabric.host()) continue;
    // In two pieces on one side, in three on the other.
    const auto half = size / 2;
    const auto third = size / 3;
    const std::span<const std::byte> sent(out.back());
    const std::span<std::byte> received(in.back());
    sends.push_back({other, sent.first(half)});
    sends.push_back({other, sent.subspan(half)});
    receives.push_back({other, received.first(third)});
    receives.push_back({other, received.subspan(third, third)});
    receives.push_back({other, received.subspan(2 * third)});
  }
  fabric.exchange(sends, receives, look_around);
  for (int other = 0; other < fabric.num_hosts(); ++other) {
    if (other == fabric.host()) continue;
    ASSERT_EQ(in[static_cast<std::size_t>(other)], message(other, fabric.host(), size));
  }
}

TEST(TcpFabricTest, MovesBytesBetweenAllHostsAtOnce) {
  for (const int num_hosts : {2, 3, 5}) {
    Leaders(num_hosts).run([](Fabric& fabric) {
      for (const std::size_t size : {0, 1, 1000, 10'000'000}) {
        exchange_all(fabric, size, kPatient);
      }
    });
  }
}

TEST(TcpFabricTest, FabricsThatWereSplitAreUsedSideBySide) {
  Leaders(3).run([](Fabric& fabric) {
    const auto all = fabric.split(std::vector<int>{0, 1, 2}, 7, kPatient);
    std::thread other([&] {
      for (int i = 0; i < 50; ++i) exchange_all(*all, 50000, kPatient);
    });
    for (int i = 0; i < 50; ++i) exchange_all(fabric, 40000, kPatient);
    other.join();
    if (fabric.host() == 0) return;
    const auto two = fabric.split(std::vector<int>{1, 2}, 8, kPatient);
    EXPECT_EQ(two->num_hosts(), 2);
    EXPECT_EQ(two->host(), fabric.host() - 1);
    exchange_all(*two, 1000, kPatient);
  });
}

TEST(TcpFabricTest, LooksAroundWhileItWaits) {
  Leaders(2).run([](Fabric& fabric) {
    if (fabric.host() == 1) return;
    std::byte byte{};
    const Fabric::Receive receive{1, {&byte, 1}};
    std::vector<int> seen;
    try {
      fabric.exchange({}, {&receive, 1}, [&](std::span<const int> waiting_for) {
        seen.assign(waiting_for.begin(), waiting_for.end());
        throw Error(ErrorKind::Timeout, "enough");
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "enough");
    }
    EXPECT_THAT(seen, ::testing::ElementsAre(1));
  });
}

TEST(TrafficTest, NamesThoseWhoHaveSentNothingSinceTheLastLook) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  std::vector<UniqueFd> sockets;
  sockets.emplace_back();  // this host's own
  sockets.emplace_back(ends[0]);
  const UniqueFd other(ends[1]);
  Traffic traffic(sockets);
  std::array<std::byte, 2> bytes{};
  traffic.add(Fabric::Receive{1, bytes});
  std::vector<std::vector<int>> looks;
  const auto look = [&](std::span<const int> waiting_for) {
    looks.emplace_back(waiting_for.begin(), waiting_for.end());
    // One comes after the first look, another after the third.
    if (looks.size() == 2) return;
    EXPECT_EQ(::write(other.get(), "x", 1), 1);
  };
  traffic.run(look);
  using ::testing::ElementsAre;
  EXPECT_THAT(looks, ElementsAre(ElementsAre(1), ElementsAre(), ElementsAre(1)));
}

std::vector<Note> notes_within(Fabric& fabric, std::size_t count,
                               std::chrono::seconds limit = 30s) {
  std::vector<Note> notes;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (notes.size() < count && std::chrono::steady_clock::now() < end) {
    for (auto& note : fabric.take_notes()) notes.push_back(std::move(note));
    std::this_thread::sleep_for(1ms);
  }
  return notes;
}

TEST(TcpFabricTest, TellsNotesToAllOtherHosts) {
  Leaders(3).run([](Fabric& fabric) {
    if (fabric.host() == 0) {
      fabric.tell({.kind = Note::Kind::Alive, .host = 0, .quiet_for = 1500ms});
      fabric.tell({.kind = Note::Kind::Failed,
                   .host = 0,
                   .error = Error(ErrorKind::Diverged, std::string(5000, 'x'), "a hint")});
      fabric.tell({.kind = Note::Kind::Left, .host = 0});
      return;
    }
    const auto notes = notes_within(fabric, 3);
    ASSERT_EQ(notes.size(), 3U);
    EXPECT_EQ(notes[0].kind, Note::Kind::Alive);
    EXPECT_EQ(notes[0].quiet_for, 1500ms);
    EXPECT_EQ(notes[1].kind, Note::Kind::Failed);
    EXPECT_EQ(notes[1].error->kind(), ErrorKind::Diverged);
    EXPECT_EQ(notes[1].error->what(), std::string(5000, 'x'));
    EXPECT_EQ(notes[1].error->hint(), "a hint");
    EXPECT_EQ(notes[2].kind, Note::Kind::Left);
    for (const auto& note : notes) EXPECT_EQ(note.host, 0);
  });
}

TEST(TcpFabricTest, FindsOutWhoIsGoneWithoutAWord) {
  Leaders leaders(3);
  std::vector<std::thread> threads;
  std::barrier first_left(3);
  for (int host = 0; host < 3; ++host) {
    threads.emplace_back([&, host] {
      auto fabric = TcpFabric::of_leaders(leaders.node(host), leaders.members(), kPatient);
      if (host == 1) fabric->tell({.kind = Note::Kind::Left, .host = 1});
      if (host < 2) fabric.reset();
      first_left.arrive_and_wait();
      if (host < 2) return;
      const auto notes = notes_within(*fabric, 2);
      ASSERT_EQ(notes.size(), 2U);
      EXPECT_EQ(notes[0].host, 0);
      EXPECT_EQ(notes[0].kind, Note::Kind::Lost);
      EXPECT_EQ(notes[1].host, 1);
      EXPECT_EQ(notes[1].kind, Note::Kind::Left) << "and not lost after that";
      std::byte byte{};
      const Fabric::Receive receive{0, {&byte, 1}};
      try {
        fabric->exchange({}, {&receive, 1}, kPatient);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
        EXPECT_STREQ(error.what(), "host a is gone");
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(TcpFabricTest, TakesNobodyOfAnEarlierStartOfTheJob) {
  Leaders leaders(2);
  auto now = leaders.node(0, "job-1");
  auto before = leaders.node(1, "job-0");
  std::thread late(
      [&] { EXPECT_THROW(TcpFabric::of_leaders(before, leaders.members(), until(5)), Error); });
  EXPECT_THROW(TcpFabric::of_leaders(now, leaders.members(), until(5)), Error);
  late.join();
}

TEST(TcpFabricTest, StrangersDoNotDisturbIt) {
  Leaders leaders(2);
  std::atomic<bool> is_over = false;
  std::atomic<int> num_connections = 0;
  std::vector<std::thread> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back([&, i] {
      std::vector<UniqueFd> held;
      while (!is_over) {
        UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const SocketAddress address("127.0.0.1", leaders.port(i % 2));
        if (::connect(socket.get(), address.get(), address.size()) != 0) continue;
        ++num_connections;
        const std::string noise(static_cast<std::size_t>(i) * 300, 'x');
        ::send(socket.get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        held.push_back(std::move(socket));
        if (held.size() > 100) held.erase(held.begin());
        if (i == 2) dial(address, Secret::random(), {}, 100ms);
      }
    });
  }
  leaders.run([&](Fabric& fabric) {
    const auto begin = std::chrono::steady_clock::now();
    // Until there were enough strangers, and for two seconds at least.
    const auto is_enough = [&] {
      const auto passed = std::chrono::steady_clock::now() - begin;
      return passed > 60s || (passed > 2s && num_connections > 1000);
    };
    std::uint64_t id = 10;
    std::byte go_on{1};
    while (go_on == std::byte{1}) {
      exchange_all(fabric, 100000, kPatient);
      const auto other = fabric.split(std::vector<int>{0, 1}, ++id, kPatient);
      exchange_all(*other, 1000, kPatient);
      // The first host says when it is over.
      if (fabric.host() == 0) {
        go_on = std::byte{!is_enough()};
        const Fabric::Send send{1, {&go_on, 1}};
        fabric.exchange({&send, 1}, {}, kPatient);
      } else {
        const Fabric::Receive receive{0, {&go_on, 1}};
        fabric.exchange({}, {&receive, 1}, kPatient);
      }
    }
    EXPECT_GT(id, 20U) << "friends get in all the same";
  });
  is_over = true;
  for (auto& stranger : strangers) stranger.join();
  EXPECT_GT(num_connections, 1000);
}

}  // namespace
}  // namespace lockstep::comm::tcp
