#include "lockstep/comm/mpi/rank_facts.h"

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

HostsByLeader hosts_of(std::span<const RankFacts> ranks) {
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

void check_each_is_one_rank(std::span<const RankFacts> ranks) {
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

void check_leaders_are_ranks(const HostsByLeader& hosts, std::span<const RankFacts> ranks) {
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

void check_all_are_there(const HostsByLeader& hosts) {
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
  if (static_cast<std::size_t>(instances.back()) + 1 == instances.size()) return;
  throw Error(ErrorKind::Options,
              fmt::format("mpi: expected {} instances in the MPI job, found {} ({})",
                          instances.back() + 1, instances.size(), to_ranges(instances)),
              kHint);
}

}  // namespace

std::string to_bytes(const RankFacts& facts) {
  ByteWriter writer;
  writer.number(facts.instance);
  writer.number(static_cast<std::int64_t>(facts.local_instances.size()));
  for (const int instance : facts.local_instances) writer.number(instance);
  writer.text(facts.host_name);
  return writer.take();
}

RankFacts facts_of(std::string_view bytes) {
  ByteReader reader(bytes);
  RankFacts facts;
  facts.instance = static_cast<int>(reader.number());
  facts.local_instances.resize(static_cast<std::size_t>(reader.number()));
  for (int& instance : facts.local_instances) instance = static_cast<int>(reader.number());
  facts.host_name = reader.text();
  return facts;
}

hosts::HostMap host_map_of(std::span<const RankFacts> ranks) {
  check_each_is_one_rank(ranks);
  auto by_leader = hosts_of(ranks);
  check_leaders_are_ranks(by_leader, ranks);
  check_all_are_there(by_leader);
  hosts::HostMap map;
  for (auto& [leader, host] : by_leader) map.hosts.push_back(std::move(host));
  return map;
}

}  // namespace lockstep::comm::mpi
