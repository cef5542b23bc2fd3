// What the launcher and its agents are made of, without processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "lockstep/comm/tcp/addresses.h"
#include "lockstep/comm/tcp/dial.h"
#include "lockstep/comm/tcp/socket.h"
#include "lockstep/launch/hosts/channel.h"
#include "lockstep/launch/hosts/host_environment.h"
#include "lockstep/launch/hosts/job_addresses.h"
#include "lockstep/launch/hosts/route_check.h"
#include "lockstep/launch/hosts/wire.h"
#include "tests/support/subprocess.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using topology::Environment;
using Variables = std::map<std::string, std::string>;

struct Ends {
  UniqueFd a;
  UniqueFd b;
};

Ends socket_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST(ChannelTest, CarriesMessagesOfAnyBytesInOrder) {
  auto ends = socket_pair();
  Channel from(std::move(ends.a), {});
  Channel to(std::move(ends.b), {});
  from.send({{"is", "first"}, {"bytes", "\xff\xfe"}});
  from.send({{"is", "second"}});
  const auto messages = to.receive();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].at("bytes").get<std::string>(), "\xff\xfe");
  EXPECT_EQ(kind_of(messages[1]), "second");
  EXPECT_FALSE(to.has_ended());
}

TEST(ChannelTest, KeepsWhatTheOtherSideDoesNotTakeYet) {
  auto ends = socket_pair();
  Channel from(std::move(ends.a), {});
  Channel to(std::move(ends.b), {});
  const std::string much(std::size_t{8} << 20, 'x');
  from.send({{"is", "much"}, {"text", much}});
  EXPECT_GT(from.unsent(), 0U);
  EXPECT_EQ(from.descriptors().back().events, POLLOUT);
  std::vector<Message> messages;
  EXPECT_TRUE(testing::eventually(
      [&] {
        from.flush();
        messages = to.receive();
        return !messages.empty();
      },
      std::chrono::seconds(30)));
  EXPECT_EQ(messages.front().at("text").get<std::string>(), much);
}

TEST(ChannelTest, SkipsNoiseBeforeTheGreetingAndKeepsIt) {
  auto ends = socket_pair();
  const std::string noise = "Welcome!\n";
  ASSERT_EQ(::write(ends.a.get(), noise.data(), noise.size()), std::ssize(noise));
  Channel from(std::move(ends.a), {});
  Channel to(std::move(ends.b), {}, Channel::Noise::UntilGreeting);
  EXPECT_TRUE(to.receive().empty());
  from.greet();
  from.send({{"is", "here"}});
  EXPECT_EQ(to.receive().size(), 1U);
  EXPECT_EQ(to.noise(), noise);
}

TEST(ChannelTest, TellsWhyItHasEnded) {
  auto ends = socket_pair();
  Channel to(std::move(ends.b), {});
  const std::string bytes("\x02\x00\x00\x00\xc1\xc1", 6);
  ASSERT_EQ(::write(ends.a.get(), bytes.data(), bytes.size()), 6);
  EXPECT_TRUE(to.receive().empty());
  EXPECT_THAT(to.why_ended(), HasSubstr("cannot be read"));

  auto others = socket_pair();
  Channel other(std::move(others.b), {});
  const std::string huge("\xff\xff\xff\xff", 4);
  ASSERT_EQ(::write(others.a.get(), huge.data(), huge.size()), 4);
  EXPECT_TRUE(other.receive().empty());
  EXPECT_THAT(other.why_ended(), HasSubstr("a message of 4294967295 bytes"));

  auto gone = socket_pair();
  Channel left(std::move(gone.b), {});
  gone.a.reset();
  EXPECT_TRUE(left.receive().empty());
  EXPECT_EQ(left.why_ended(), "the connection has ended");
}

TEST(WireTest, PlannedInstancesArriveAsTheyWere) {
  PlannedInstance sent;
  sent.identity.launched_by = topology::LaunchedBy::Lockstep;
  sent.identity.job_id = "c0ffee";
  sent.identity.session = "c0ffee-3";
  sent.identity.restart_count = 3;
  sent.identity.instance = 2;
  sent.identity.num_instances = 4;
  sent.identity.local_instance = 0;
  sent.identity.num_local_instances = 2;
  sent.identity.num_replicas = 8;
  sent.identity.local_replicas = {4, 2};
  sent.identity.device_ids = {0, 1};
  sent.identity.threads_per_device = 5;
  sent.identity.stall_timeout = std::chrono::duration<double>(7.5);
  sent.identity.transport = topology::TransportKind::Tcp;
  sent.identity.cache_path = "/cache";
  sent.identity.hosts = {{"a", "10.0.0.1", 4711, 2}, {"b", "10.0.0.2", 4712, 2}};
  sent.identity.host = 1;
  sent.host = "b";
  sent.cores = {0, 1};
  sent.cpus = {0, 1, 8, 9};
  sent.stages_on_host = 4;
  sent.usable_cores = 16;
  const auto got = to_planned_instance(to_message(sent));
  EXPECT_EQ(got.identity, sent.identity);
  EXPECT_EQ(got.host, "b");
  EXPECT_EQ(got.cores, sent.cores);
  EXPECT_EQ(got.cpus, sent.cpus);
  EXPECT_EQ(got.stages_on_host, 4);
  EXPECT_EQ(got.usable_cores, 16);
}

TEST(WireTest, MachinesArriveAsTheyWere) {
  const topology::Machine sent{
      .cpu_model = "m", .memory_bytes = 1 << 20, .cores = {{1, {3, 7}}}, .cpu_quota = 1.5};
  const auto got = to_machine(to_message(sent));
  EXPECT_EQ(got.cpu_model, "m");
  EXPECT_EQ(got.memory_bytes, 1 << 20);
  EXPECT_EQ(got.cores.at(0).numa_node, 1);
  EXPECT_THAT(got.cores.at(0).cpus, ElementsAre(3, 7));
  EXPECT_EQ(got.cpu_quota, 1.5);
}

TEST(WireTest, FailuresArriveAsTheyWere) {
  const events::InstanceFailed sent{.instance = 3,
                                    .host = "b",
                                    .pid = 77,
                                    .status = {.code = 0, .signal = 11},
                                    .run_time = events::Seconds(1.5),
                                    .last_error_lines = {"one", "two"},
                                    .stopped = events::Seconds(60),
                                    .step = 12};
  const auto event = to_event(to_message(sent));
  ASSERT_TRUE(event && std::holds_alternative<events::InstanceFailed>(*event));
  const auto& got = std::get<events::InstanceFailed>(*event);
  EXPECT_EQ(got.instance, 3);
  EXPECT_EQ(got.status, sent.status);
  EXPECT_THAT(got.last_error_lines, ElementsAre("one", "two"));
  EXPECT_EQ(got.stopped, sent.stopped);
  EXPECT_EQ(got.step, 12);
  EXPECT_FALSE(to_event({{"is", "pong"}}).has_value());
}

TEST(HostEnvironmentTest, TakesFromTheAgentWhatTellsOfItsHost) {
  const Environment launcher(Variables{{"PATH", "/mine"},
                                       {"HOSTNAME", "a"},
                                       {"TMPDIR", "/tmp/a"},
                                       {"SLURM_NODEID", "0"},
                                       {"OMPI_MCA_x", "1"}});
  const Environment agent(Variables{{"PATH", "/theirs"},
                                    {"HOSTNAME", "b"},
                                    {"SLURM_NODEID", "1"},
                                    {"PMIX_RANK", "1"},
                                    {"SSH_CONNECTION", "x"},
                                    {"LOCKSTEP_AGENT_SECRET", "s"},
                                    {"OTHER", "o"}});
  EXPECT_THAT(
      host_environment(launcher, agent).to_strings(),
      ElementsAre("HOSTNAME=b", "PATH=/mine", "PMIX_RANK=1", "SLURM_NODEID=1", "SSH_CONNECTION=x"));
}

TEST(AddressesTest, KnowsTheWayToThisMachine) {
  using namespace comm::tcp;
  EXPECT_THAT(addresses_of("127.0.0.3"), ElementsAre("127.0.0.3"));
  EXPECT_TRUE(addresses_of("no.such.host.invalid").empty());
  EXPECT_EQ(address_towards("127.0.0.3"), "127.0.0.1");
  EXPECT_EQ(local_address(STDIN_FILENO), "");
}

/// A machine with the addresses 192.168.1.1 and 10.0.0.1 of two networks.
std::string way_to(const std::string& address) {
  if (comm::tcp::is_loopback(address)) return "127.0.0.1";
  if (address.starts_with("192.168.1.")) return "192.168.1.1";
  return address.starts_with("10.") ? "10.0.0.1" : "";
}

TEST(JobAddressesTest, AreThoseOfTheWaysToAllHostsAndTheLoopbackDeviceIsTheLast) {
  // As where /etc/hosts has this machine's own name at 127.0.1.1.
  EXPECT_THAT(listening_addresses({{"127.0.1.1"}, {"192.168.1.2"}, {"192.168.1.3"}}, way_to),
              ElementsAre("192.168.1.1", "127.0.0.1"));
  EXPECT_THAT(listening_addresses({{"2001:db8::1", "10.0.0.2"}, {"192.168.1.2"}}, way_to),
              ElementsAre("10.0.0.1", "192.168.1.1"));
  EXPECT_THAT(listening_addresses({{}, {}}, way_to), ElementsAre("127.0.0.1"));
}

TEST(JobAddressesTest, AHostThatOthersCannotReachAtTheLoopbackDeviceGetsABetterOne) {
  EXPECT_THAT(addresses_for_all({"127.0.0.1", "192.168.1.2"}, way_to),
              ElementsAre("192.168.1.1", "192.168.1.2"));
  EXPECT_THAT(addresses_for_all({"10.0.0.2", "", "::1"}, way_to),
              ElementsAre("10.0.0.2", "10.0.0.1", "10.0.0.1"));
  EXPECT_THAT(addresses_for_all({"127.0.0.1", "172.16.0.2"}, way_to),
              ElementsAre("127.0.0.1", "172.16.0.2"));
}

TEST(JobAddressesTest, HostsThatAreAllThisMachineKeepTheirOwn) {
  EXPECT_THAT(addresses_for_all({"127.0.0.2", "", "127.0.0.3"}, way_to),
              ElementsAre("127.0.0.2", "127.0.0.1", "127.0.0.3"));
  EXPECT_THAT(addresses_for_all({"", ""}, way_to), ElementsAre("127.0.0.1", "127.0.0.1"));
}

/// Two hosts that check the ways between them, in one thread.
struct RoutePair {
  explicit RoutePair(const comm::tcp::Secret& first, const comm::tcp::Secret& second) {
    const std::vector<RouteCheck::Peer> peers{
        {0, "127.0.0.2", comm::tcp::port_of(sockets[0].get())},
        {1, "127.0.0.3", comm::tcp::port_of(sockets[1].get())}};
    a.emplace(sockets[0].get(), first, peers, 0);
    b.emplace(sockets[1].get(), second, peers, 1);
  }
  bool run() {
    return testing::eventually(
        [&] {
          a->attend();
          b->attend();
          return a->is_done() && b->is_done();
        },
        std::chrono::seconds(30));
  }
  std::array<UniqueFd, 2> sockets{comm::tcp::listen_at({"127.0.0.2", 0}),
                                  comm::tcp::listen_at({"127.0.0.3", 0})};
  std::optional<RouteCheck> a;
  std::optional<RouteCheck> b;
};

TEST(RouteCheckTest, FindsAWayWhereBothSidesKnowTheSecret) {
  const auto secret = comm::tcp::Secret::random();
  RoutePair pair(secret, secret);
  ASSERT_TRUE(pair.run());
  EXPECT_TRUE(pair.a->failures().empty());
  EXPECT_TRUE(pair.b->failures().empty());
}

TEST(RouteCheckTest, AStrangerIsNoWay) {
  RoutePair pair(comm::tcp::Secret::random(), comm::tcp::Secret::random());
  ASSERT_TRUE(pair.run());
  ASSERT_EQ(pair.a->failures().size(), 1U);
  EXPECT_EQ(pair.a->failures().front().host, 1);
}

/// A place may have to be given up for strangers before one has proven itself.
TEST(RouteCheckTest, TriesAgainWhereItWasHungUpOn) {
  const auto secret = comm::tcp::Secret::random();
  RoutePair pair(secret, secret);
  pair.b.reset();
  const auto evict_one = [&] {
    pair.a->attend();
    const UniqueFd guest(::accept(pair.sockets[1].get(), nullptr, nullptr));
    return static_cast<bool>(guest);
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(testing::eventually(evict_one, std::chrono::seconds(30)));
  pair.b.emplace(pair.sockets[1].get(), secret, std::vector<RouteCheck::Peer>{}, 1);
  ASSERT_TRUE(pair.run());
  EXPECT_TRUE(pair.a->failures().empty()) << pair.a->failures().front().why;
}

/// One host may have started the job while another still answers to those who check.
TEST(RouteCheckTest, TakesNoConnectionThatIsForTheJob) {
  const auto secret = comm::tcp::Secret::random();
  const auto socket = comm::tcp::listen_at({"127.0.0.2", 0});
  RouteCheck check(socket.get(), secret, {}, 0);
  const auto is_taken = [&](const comm::tcp::Payload& payload) {
    std::atomic<bool> is_over = false;
    UniqueFd connection;
    std::thread instance([&] {
      connection = comm::tcp::dial({"127.0.0.2", comm::tcp::port_of(socket.get())}, secret, payload,
                                   std::chrono::seconds(30));
      is_over = true;
    });
    EXPECT_TRUE(testing::eventually(
        [&] {
          check.attend();
          return is_over.load();
        },
        std::chrono::seconds(30)));
    instance.join();
    return static_cast<bool>(connection);
  };
  EXPECT_TRUE(is_taken(RouteProbe::kPayload));
  EXPECT_FALSE(is_taken({std::byte{1}}));
}

TEST(RouteCheckTest, SaysWhyThereIsNoWay) {
  const auto secret = comm::tcp::Secret::random();
  const auto own = comm::tcp::listen_at({"127.0.0.2", 0});
  auto closed = comm::tcp::listen_at({"127.0.0.3", 0});
  const int port = comm::tcp::port_of(closed.get());
  closed.reset();
  RouteCheck check(own.get(), secret, {{0, "127.0.0.2", 1}, {1, "127.0.0.3", port}}, 0);
  EXPECT_TRUE(testing::eventually(
      [&] {
        check.attend();
        return check.is_done();
      },
      std::chrono::seconds(30)));
  ASSERT_EQ(check.failures().size(), 1U);
  EXPECT_EQ(check.failures().front().why, "Connection refused");
}

}  // namespace
}  // namespace lockstep::launch
