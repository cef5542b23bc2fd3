#include "lockstep/topology/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "lockstep/base/error.h"

namespace lockstep::topology {
namespace {

constexpr int kMostReplicas = 1'000'000;

void check_at_least_one(int value, const char* option) {
  if (value >= 1 && value <= kMostReplicas) return;
  throw Error(ErrorKind::Options,
              fmt::format("place: {} is {}, expected 1 to {}", option, value, kMostReplicas));
}

void check(const JobShape& shape) {
  check_at_least_one(shape.instances, "--num-instances");
  check_at_least_one(shape.replicas, "--num-replicas");
  check_at_least_one(shape.devices_per_replica, "--devices-per-replica");
  if (std::int64_t{shape.replicas} * shape.devices_per_replica > kMostReplicas) {
    throw Error(ErrorKind::Options,
                fmt::format("place: {} replicas of {} devices each are more than {} devices",
                            shape.replicas, shape.devices_per_replica, kMostReplicas));
  }
  if (shape.instances > shape.replicas) {
    throw Error(
        ErrorKind::Options,
        fmt::format("place: {} instances need a replica each, but --num-replicas is {}",
                    shape.instances, shape.replicas),
        fmt::format("raise --num-replicas to {} or lower --num-instances", shape.instances));
  }
}

/// How many instances each host takes: one round after another, one more on each that has room.
std::vector<int> divide(int instances, const std::vector<Host>& hosts) {
  std::vector<int> counts(hosts.size(), 0);
  int left = instances;
  while (left > 0) {
    const int before = left;
    for (std::size_t host = 0; host < hosts.size() && left > 0; ++host) {
      if (hosts[host].slots && counts[host] >= *hosts[host].slots) continue;
      ++counts[host];
      --left;
    }
    if (left == before) {
      throw Error(ErrorKind::Options,
                  fmt::format("place: {} instances were asked for, but the hosts have {} slots",
                              instances, instances - left),
                  fmt::format("lower --num-instances to {} or raise the slots in --host",
                              instances - left));
    }
  }
  return counts;
}

}  // namespace

std::span<const InstancePlace> Placement::on_host(int host) const {
  const auto is_before = [](const InstancePlace& place, int wanted) { return place.host < wanted; };
  const auto begin = std::lower_bound(instances.begin(), instances.end(), host, is_before);
  const auto end = std::lower_bound(begin, instances.end(), host + 1, is_before);
  return {begin, end};
}

int Placement::stages_on_host(int host) const {
  const auto local = on_host(host);
  if (local.empty()) return 0;
  const int end = local.back().replicas.first + local.back().replicas.count;
  return (end - local.front().replicas.first) * shape.devices_per_replica;
}

ReplicaRange replicas_of(int instance, const JobShape& shape) {
  const int share = shape.replicas / shape.instances;
  const int rest = shape.replicas % shape.instances;
  return {instance * share + std::min(instance, rest), share + (instance < rest ? 1 : 0)};
}

Placement place(std::vector<Host> hosts, const JobShape& shape) {
  check(shape);
  if (hosts.empty()) throw Error(ErrorKind::Options, "place: expected at least one host");
  const auto counts = divide(shape.instances, hosts);

  Placement placement{shape, std::move(hosts), {}};
  placement.instances.reserve(static_cast<std::size_t>(shape.instances));
  for (std::size_t host = 0; host < counts.size(); ++host) {
    for (int local = 0; local < counts[host]; ++local) {
      const int instance = static_cast<int>(placement.instances.size());
      placement.instances.push_back(
          {instance, static_cast<int>(host), local, replicas_of(instance, shape)});
    }
  }
  return placement;
}

}  // namespace lockstep::topology
