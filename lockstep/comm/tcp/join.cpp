#include "lockstep/comm/tcp/join.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "lockstep/comm/hosts/hosts_transport.h"
#include "lockstep/comm/tcp/tcp_fabric.h"

namespace lockstep::comm::tcp {
namespace {

using hosts::HostMap;

UniqueFd listener_of(const JobPlace& place, bool is_leader) {
  const auto& here = place.hosts[static_cast<std::size_t>(place.host)];
  if (!is_leader) return listen_at({here.address, 0});
  if (!place.listener) {
    throw Error(ErrorKind::Options,
                fmt::format("communicator: expected a socket that listens at {}:{}, found none",
                            here.address, here.port),
                "start the job with 'lockstep run'");
  }
  UniqueFd socket(::fcntl(*place.listener, F_DUPFD_CLOEXEC, 3));
  if (!socket || port_of(socket.get()) == 0) {
    throw Error(ErrorKind::Options,
                fmt::format("communicator: descriptor {} is not a socket that listens at {}:{}",
                            *place.listener, here.address, here.port),
                "start the program so that it keeps the descriptors that the launcher gave it");
  }
  return socket;
}

/// The patience of a leader with hosts that have not come: they have a first time to do so.
class Meeting {
 public:
  Meeting(const JobPlace& place, host::Member& member) : place_(place), member_(member) {}

  void look(std::span<const int> missing) {
    member_.throw_if_failed();
    // Those of this host wait for it, and must not give it up before it gives up others.
    member_.heartbeat("wait for other hosts");
    const auto& options = member_.options();
    const std::chrono::duration<double> waited = host::Clock::now() - begin_;
    if (options.stall_timeout.count() > 0 && waited > options.stall_timeout) {
      throw Error(ErrorKind::Timeout, describe(missing, waited),
                  "start the job on every host, and let all of them reach each other's addresses");
    }
    if (waited < options.warn_after || has_warned_) return;
    has_warned_ = true;
    if (options.warn) options.warn(describe(missing, waited));
  }

 private:
  std::string describe(std::span<const int> missing, std::chrono::duration<double> waited) const {
    std::vector<std::string> names;
    for (const int index : missing) {
      const auto& host = place_.hosts[static_cast<std::size_t>(index)];
      names.push_back(
          fmt::format("{} ({})", host.name, SocketAddress(host.address, host.port).text()));
    }
    return fmt::format("meeting: hosts {} have not come after {:.0f} s", fmt::join(names, ", "),
                       waited.count());
  }

  const JobPlace& place_;
  host::Member& member_;
  host::Clock::time_point begin_ = host::Clock::now();
  bool has_warned_ = false;
};

TcpFabric::Members leaders_of(const HostMap& map) {
  TcpFabric::Members members;
  for (const auto& host : map.hosts) {
    members.instances.push_back(host.instances.front());
    members.names.push_back(host.name);
  }
  return members;
}

/// Everybody learns where everybody listens: a group may be of any instances.
void exchange_ports(hosts::Fabric& fabric, const HostMap& map, Meeting& meeting,
                    host::Member& member) {
  std::vector<std::vector<std::int32_t>> ports;
  for (const auto& host : map.hosts) {
    auto& of_host = ports.emplace_back();
    for (const int instance : host.instances) of_host.push_back(member.port_of(instance));
  }
  std::vector<hosts::Fabric::Send> sends;
  std::vector<hosts::Fabric::Receive> receives;
  const auto& mine = ports[static_cast<std::size_t>(fabric.host())];
  for (int host = 0; host < fabric.num_hosts(); ++host) {
    if (host == fabric.host()) continue;
    auto& theirs = ports[static_cast<std::size_t>(host)];
    sends.push_back({host, std::as_bytes(std::span(mine))});
    receives.push_back({host, std::as_writable_bytes(std::span(theirs))});
  }
  fabric.exchange(sends, receives, [&](std::span<const int> missing) { meeting.look(missing); });
  for (std::size_t host = 0; host < ports.size(); ++host) {
    for (std::size_t i = 0; i < ports[host].size(); ++i) {
      member.note_port(map.hosts[host].instances[i], ports[host][i]);
    }
  }
}

/// What it takes to connect any instances of the job.
struct Connector {
  std::shared_ptr<TcpNode> node;
  std::shared_ptr<host::Member> member;
  std::vector<topology::JobHost> hosts;
  HostMap map;

  /// The leader of this host may have yet to learn where others listen.
  void find(int instance, int place, const hosts::Fabric::LookAround& look_around) const {
    while (member->port_of(instance) == 0) {
      look_around({&place, 1});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const auto& host = hosts[static_cast<std::size_t>(map.host_of(instance))];
    node->set_address(instance, {host.address, member->port_of(instance)});
  }

  std::unique_ptr<hosts::Fabric> operator()(std::span<const int> instances, std::uint64_t id,
                                            const hosts::Fabric::LookAround& look_around) const {
    TcpFabric::Members members{{instances.begin(), instances.end()}, {}};
    for (std::size_t i = 0; i < instances.size(); ++i) {
      find(instances[i], static_cast<int>(i), look_around);
      members.names.push_back(hosts[static_cast<std::size_t>(map.host_of(instances[i]))].name);
    }
    return std::make_unique<TcpFabric>(node, std::move(members), id, look_around);
  }
};

/// Connects this host with the others, for its leader.
void join_leaders(const JobPlace& place, const std::shared_ptr<TcpNode>& node,
                  hosts::HostsJob& job) {
  for (std::size_t i = 0; i < place.hosts.size(); ++i) {
    node->set_address(job.map.hosts[i].instances.front(),
                      {place.hosts[i].address, place.hosts[i].port});
  }
  auto& member = *job.member;
  Meeting meeting(place, member);
  job.fabric = TcpFabric::of_leaders(node, leaders_of(job.map),
                                     [&](std::span<const int> missing) { meeting.look(missing); });
  job.watch = std::make_unique<hosts::HostWatch>(member, *job.fabric, job.map);
  for (const int instance : job.map.hosts[static_cast<std::size_t>(place.host)].instances) {
    while (member.port_of(instance) == 0) {
      meeting.look({});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  exchange_ports(*job.fabric, job.map, meeting, member);
  member.note_return();
}

std::shared_ptr<hosts::HostsJob> make_job(const JobPlace& place,
                                          const std::shared_ptr<host::Member>& member) {
  const auto& here = place.map.hosts[static_cast<std::size_t>(place.host)];
  const bool is_leader = here.instances.front() == member->instance();
  const auto node = std::make_shared<TcpNode>(
      listener_of(place, is_leader), TcpNode::Job{.secret = place.secret,
                                                  .session = place.session,
                                                  .instance = member->instance(),
                                                  .num_instances = place.map.num_instances()});
  member->note_port(member->instance(), node->port());
  auto job = std::make_shared<hosts::HostsJob>();
  job->map = place.map;
  job->member = member;
  job->connect = Connector{node, member, place.hosts, place.map};
  if (is_leader) join_leaders(place, node, *job);
  return job;
}

}  // namespace

std::unique_ptr<Transport> join(const JobPlace& place, std::shared_ptr<host::Member> member) {
  std::shared_ptr<hosts::HostsJob> job;
  try {
    job = make_job(place, member);
  } catch (const Error& error) {
    member->fail(error);
  }
  return std::make_unique<hosts::HostsTransport>(std::move(job));
}

}  // namespace lockstep::comm::tcp
