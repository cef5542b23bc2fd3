#include "lockstep/comm/tcp/join.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/comm/checked_operation.h"
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

std::unique_ptr<TcpFabric> connect_leaders(const JobPlace& place, const HostMap& map,
                                           const std::shared_ptr<TcpNode>& node,
                                           host::Member& member) {
  for (std::size_t i = 0; i < place.hosts.size(); ++i) {
    node->set_address(map.hosts[i].instances.front(),
                      {place.hosts[i].address, place.hosts[i].port});
  }
  Meeting meeting(place, member);
  auto fabric = TcpFabric::of_leaders(node, leaders_of(map),
                                      [&](std::span<const int> missing) { meeting.look(missing); });
  member.note_return();
  return fabric;
}

/// Everybody learns where everybody listens: a group may be of any instances.
void exchange_ports(Transport& transport, const JobPlace& place, const HostMap& map,
                    TcpNode& node) {
  const std::vector<std::int32_t> mine{node.port()};
  std::vector<std::int32_t> all(transport.instances().size());
  transport.execute(checked::all_gather(buffer_of(mine, "ports"), buffer_of(all, "ports"),
                                        static_cast<int>(all.size())));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int instance = transport.instances()[i];
    const auto& host = place.hosts[static_cast<std::size_t>(map.host_of(instance))];
    node.set_address(instance, {host.address, all[i]});
  }
}

hosts::HostsJob::Connect connect_any(std::shared_ptr<TcpNode> node, HostMap map) {
  return [node = std::move(node), map = std::move(map)](
             std::span<const int> instances, std::uint64_t id,
             const hosts::Fabric::LookAround& look_around) {
    TcpFabric::Members members{{instances.begin(), instances.end()}, {}};
    for (const int instance : instances) {
      members.names.push_back(map.hosts[static_cast<std::size_t>(map.host_of(instance))].name);
    }
    return std::make_unique<TcpFabric>(node, std::move(members), id, look_around);
  };
}

std::shared_ptr<hosts::HostsJob> make_job(const JobPlace& place, const HostMap& map,
                                          const std::shared_ptr<host::Member>& member,
                                          std::shared_ptr<TcpNode>& node) {
  const auto& here = map.hosts[static_cast<std::size_t>(place.host)];
  const bool is_leader = here.instances.front() == member->instance();
  node = std::make_shared<TcpNode>(listener_of(place, is_leader),
                                   TcpNode::Job{.secret = place.secret,
                                                .session = place.session,
                                                .instance = member->instance(),
                                                .num_instances = map.num_instances()});
  auto job = std::make_shared<hosts::HostsJob>();
  job->map = map;
  job->member = member;
  job->connect = connect_any(node, map);
  if (is_leader) {
    job->fabric = connect_leaders(place, map, node, *member);
    job->watch = std::make_unique<hosts::HostWatch>(*member, *job->fabric, job->map);
  }
  return job;
}

}  // namespace

std::unique_ptr<Transport> join(const JobPlace& place, std::shared_ptr<host::Member> member) {
  const auto& map = place.map;
  std::shared_ptr<TcpNode> node;
  std::shared_ptr<hosts::HostsJob> job;
  try {
    job = make_job(place, map, member, node);
  } catch (const Error& error) {
    member->fail(error);
  }
  auto transport = std::make_unique<hosts::HostsTransport>(std::move(job));
  exchange_ports(*transport, place, map, *node);
  return transport;
}

}  // namespace lockstep::comm::tcp
