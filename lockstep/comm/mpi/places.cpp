#include "lockstep/comm/mpi/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/comm/mpi/plain_bytes.h"

namespace lockstep::comm::mpi {
namespace {

constexpr const char* kHint = "start the job with mpirun or pass --transport tcp";

using HostsByLeader = std::map<int, hosts::HostMap::Host>;

HostsByLeader hosts_of(std::span<const Place> ranks) {
  HostsByLeader hosts;
  for (const auto& rank : ranks) {
    const int leader = rank.local_instances.front();
    const auto& host =
        hosts.try_emplace(leader, hosts::HostMap::Host{rank.host_name, rank.local_instances})
            .first->second;
    if (host.instances == rank.local_instances) continue;
    throw Error(ErrorKind::Options,
                fmt::format("mpi: expected the instances on the host of instance {} to agree on "
                            "who they are, found {} and {}",
                            leader, to_ranges(host.instances), to_ranges(rank.local_instances)),
                kHint);
  }
  return hosts;
}

void check_same_job(std::span<const Place> ranks) {
  for (const auto& rank : ranks) {
    if (rank.num_instances == ranks.front().num_instances) continue;
    throw Error(ErrorKind::Options,
                fmt::format("mpi: expected the ranks of one job, found instance {} of {} and "
                            "instance {} of {}",
                            ranks.front().instance, ranks.front().num_instances, rank.instance,
                            rank.num_instances),
                kHint);
  }
}

void check_each_is_one_rank(std::span<const Place> ranks) {
  std::set<int> seen;
  for (const auto& rank : ranks) {
    if (seen.insert(rank.instance).second) continue;
    throw Error(ErrorKind::Options,
                fmt::format("mpi: expected one rank of the MPI job per instance, found two that "
                            "are instance {}",
                            rank.instance),
                "start one process per instance, or one `lockstep` per host");
  }
}

void check_leaders_are_ranks(const HostsByLeader& hosts, std::span<const Place> ranks) {
  for (const auto& [leader, host] : hosts) {
    const bool is_rank = std::any_of(ranks.begin(), ranks.end(), [leader = leader](const auto& r) {
      return r.instance == leader;
    });
    if (is_rank) continue;
    throw Error(ErrorKind::Options,
                fmt::format("mpi: expected instance {}, the first on {}, in the MPI job, found "
                            "others of its host alone",
                            leader, host.name),
                kHint);
  }
}

void check_all_are_there(const HostsByLeader& hosts, int num_instances) {
  std::vector<int> instances;
  for (const auto& [leader, host] : hosts) {
    instances.insert(instances.end(), host.instances.begin(), host.instances.end());
  }
  std::sort(instances.begin(), instances.end());
  const auto twice = std::adjacent_find(instances.begin(), instances.end());
  if (twice != instances.end()) {
    throw Error(ErrorKind::Options,
                fmt::format("mpi: expected each instance on one host, found {} on two", *twice),
                kHint);
  }
  // No two are equal, so this many with none above the last are all of them.
  if (instances.size() == static_cast<std::size_t>(num_instances) &&
      instances.back() < num_instances) {
    return;
  }
  throw Error(ErrorKind::Options,
              fmt::format("mpi: expected {} instances in the MPI job, found {} ({})", num_instances,
                          instances.size(), to_ranges(instances)),
              kHint);
}

}  // namespace

std::string to_bytes(const Place& place) {
  ByteWriter writer;
  writer.number(place.instance);
  writer.number(place.num_instances);
  writer.number(static_cast<std::int64_t>(place.local_instances.size()));
  for (const int instance : place.local_instances) writer.number(instance);
  writer.text(place.host_name);
  return writer.take();
}

Place place_of(std::string_view bytes) {
  ByteReader reader(bytes);
  Place place;
  place.instance = static_cast<int>(reader.number());
  place.num_instances = static_cast<int>(reader.number());
  place.local_instances.resize(static_cast<std::size_t>(reader.number()));
  for (int& instance : place.local_instances) instance = static_cast<int>(reader.number());
  place.host_name = reader.text();
  return place;
}

hosts::HostMap host_map_of(std::span<const Place> ranks) {
  check_same_job(ranks);
  check_each_is_one_rank(ranks);
  auto by_leader = hosts_of(ranks);
  check_leaders_are_ranks(by_leader, ranks);
  check_all_are_there(by_leader, ranks.front().num_instances);
  hosts::HostMap map;
  for (auto& [leader, host] : by_leader) map.hosts.push_back(std::move(host));
  return map;
}

}  // namespace lockstep::comm::mpi
