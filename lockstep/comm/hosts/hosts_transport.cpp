#include "lockstep/comm/hosts/hosts_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/fnv.h"

namespace lockstep::comm::hosts {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kJob = 1;
/// How long calls of some hosts wait to be compared with those of all.
constexpr auto kTimeForCalls = 5s;

std::uint64_t group_id(std::uint64_t parent, std::span<const int> instances) {
  Fnv id;
  id.add(parent);
  for (const int instance : instances) id.add(static_cast<std::uint64_t>(instance));
  return id.value();
}

template <typename Value>
std::span<std::byte> as_bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Error not_on_one_host(std::string_view what, std::string_view name, int num_hosts) {
  return {ErrorKind::Options,
          fmt::format("{} \"{}\": expected instances of one host, found those of {} hosts", what,
                      name, num_hosts),
          "Communicator::on_this_host()"};
}

}  // namespace

HostsTransport::HostsTransport(std::shared_ptr<HostsJob> job)
    : job_(std::move(job)),
      layout_(job_->map, host::all_instances(job_->map.num_instances()), job_->member->instance()),
      id_(kJob),
      local_(job_->member, layout_.local_instances(), layout_.instances),
      wait_(*job_->member, job_->map, layout_.job_hosts),
      fabric_(job_->fabric) {}

HostsTransport::HostsTransport(const HostsTransport& parent, std::vector<int> instances)
    : job_(parent.job_),
      layout_(job_->map, std::move(instances), job_->member->instance()),
      id_(group_id(parent.id_, layout_.instances)),
      local_(job_->member, layout_.local_instances(), layout_.instances,
             parent.local_.channel().id()),
      wait_(*job_->member, job_->map, layout_.job_hosts) {
  if (is_leader()) or_fail([&] { fabric_ = make_fabric(parent); });
}

/// From the parent's fabric where that connects all leaders of this group, else a new one.
std::shared_ptr<Fabric> HostsTransport::make_fabric(const HostsTransport& parent) {
  std::vector<int> places;
  for (const int leader : layout_.leaders) {
    const auto found = std::ranges::find(parent.layout_.leaders, leader);
    if (found == parent.layout_.leaders.end()) break;
    places.push_back(static_cast<int>(found - parent.layout_.leaders.begin()));
  }
  const bool is_split = places.size() == layout_.leaders.size();
  HostWait wait(*job_->member, job_->map, is_split ? parent.layout_.job_hosts : layout_.job_hosts);
  wait.begin(fmt::format("meeting of instances {}", fmt::join(layout_.instances, ",")), 0);
  const auto look = [&](std::span<const int> waiting_for) { wait.look(waiting_for); };
  if (is_split) return parent.fabric_->split(places, id_, look);
  if (job_->connect) return job_->connect(layout_.leaders, id_, look);
  throw Error(ErrorKind::Unavailable,
              fmt::format("group: instances {} are on {} hosts, and not the first instance of each "
                          "is among them",
                          fmt::join(layout_.instances, ","), layout_.num_hosts()),
              fmt::format("add instances {}, or pass --transport tcp",
                          fmt::join(parent.layout_.leaders, ",")));
}

std::unique_ptr<Transport> HostsTransport::group(std::span<const int> instances) {
  std::vector<int> members(instances.begin(), instances.end());
  const HostLayout layout(job_->map, members, job_->member->instance());
  if (layout.num_hosts() > 1) {
    return std::unique_ptr<Transport>(new HostsTransport(*this, std::move(members)));
  }
  return std::make_unique<host::HostTransport>(job_->member, std::move(members), std::vector<int>(),
                                               local_.channel().id());
}

SharedMemory HostsTransport::allocate(std::size_t, std::string_view name) {
  throw not_on_one_host("allocate", name, layout_.num_hosts());
}

KeptPiece HostsTransport::keep(std::size_t, std::string_view name, std::uint64_t) {
  throw not_on_one_host("keep", name, layout_.num_hosts());
}

/// Who leaves an operation in the middle leaves the others in it: they must hear of it.
template <typename Function>
void HostsTransport::or_fail(Function function) {
  auto& member = *job_->member;
  try {
    function();
  } catch (const Error& error) {
    member.fail(error);
  } catch (const std::exception& error) {
    member.fail(Error(ErrorKind::Unavailable,
                      fmt::format("{} failed in a collective: {}",
                                  member.name_of(member.instance()), error.what())));
  }
}

void HostsTransport::execute(const Operation& operation) {
  or_fail([&] {
    local_.begin(operation);
    begin_call(operation);
    run(operation);
    local_.finish();
  });
}

void HostsTransport::begin_call(const Operation& operation) {
  if (!is_leader()) return;
  auto& member = *job_->member;
  calls_.assign(static_cast<std::size_t>(layout_.num_hosts()), {});
  calls_[static_cast<std::size_t>(layout_.host)] =
      call_of(operation, local_.channel().operation(), member.name_of(member.instance()));
  is_compared_ = false;
}

void HostsTransport::run(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::AllReduce:
      operation.has_leaves() ? all_reduce_leaves(operation) : all_reduce(operation);
      break;
    case OperationKind::ReduceScatter:
      reduce_scatter(operation);
      break;
    case OperationKind::AllGather:
      all_gather(operation);
      break;
    case OperationKind::Broadcast:
      broadcast(operation);
      break;
    case OperationKind::Gather:
      gather(operation);
      break;
    case OperationKind::Scatter:
      scatter(operation);
      break;
    case OperationKind::AllReduceNodes:
      all_reduce_nodes(operation);
      break;
    case OperationKind::Barrier:
    case OperationKind::Allocate:
      break;
  }
  // Even where there is nothing to exchange, hosts must meet, and find out whether they agree.
  if (is_leader() && !is_compared_) exchange({}, {});
  meet();
}

/// Messages are sent in the order in which they are given, and the call before the first of them.
void HostsTransport::exchange(std::span<const Fabric::Send> sends,
                              std::span<const Fabric::Receive> receives) {
  if (!is_leader()) return;
  auto& member = *job_->member;
  std::vector<Fabric::Send> all_sends;
  std::vector<Fabric::Receive> all_receives;
  if (!is_compared_) {
    const auto mine = as_bytes_of(calls_[static_cast<std::size_t>(layout_.host)]);
    for_other_hosts([&](int host) {
      all_sends.push_back({host, mine});
      all_receives.push_back({host, as_bytes_of(calls_[static_cast<std::size_t>(host)])});
    });
    all_sends.insert(all_sends.end(), sends.begin(), sends.end());
    all_receives.insert(all_receives.end(), receives.begin(), receives.end());
    sends = all_sends;
    receives = all_receives;
  }
  exchange_begin_ = host::Clock::now();
  wait_.begin(local_.channel().title(), local_.channel().operation());
  try {
    fabric_->exchange(sends, receives,
                      [&](std::span<const int> waiting_for) { look_around(waiting_for); });
  } catch (const Error& error) {
    compare_calls();
    member.throw_if_failed();
    throw Error(error.kind(), fmt::format("{}: {}", local_.channel().title(), error.what()),
                error.hint());
  }
  compare_calls();
  is_compared_ = true;
}

void HostsTransport::look_around(std::span<const int> waiting_for) {
  wait_.look(waiting_for);
  // Where hosts disagree they may wait for each other's data for ever.
  const bool have_all_arrived = std::ranges::all_of(calls_, &Call::has_arrived);
  if (have_all_arrived || host::Clock::now() - exchange_begin_ > kTimeForCalls) compare_calls();
}

void HostsTransport::compare_calls() {
  if (!is_compared_) compare(calls_, *job_->member);
}

}  // namespace lockstep::comm::hosts
