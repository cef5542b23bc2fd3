#include "lockstep/comm/tcp/tcp_fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/comm/tcp/traffic.h"

namespace lockstep::comm::tcp {
namespace {

constexpr std::uint64_t kLeaders = 0;

int place_of(const TcpNode& node, const std::vector<int>& instances) {
  const auto found = std::ranges::find(instances, node.instance());
  return static_cast<int>(found - instances.begin());
}

}  // namespace

std::unique_ptr<TcpFabric> TcpFabric::of_leaders(std::shared_ptr<TcpNode> node, Members members,
                                                 const LookAround& look_around) {
  auto fabric =
      std::make_unique<TcpFabric>(std::move(node), std::move(members), kLeaders, look_around);
  fabric->notes_ =
      std::make_shared<NoteLinks>(fabric->connect(Purpose::Notes, kLeaders, look_around));
  return fabric;
}

TcpFabric::TcpFabric(std::shared_ptr<TcpNode> node, Members members, std::uint64_t id,
                     const LookAround& look_around)
    : node_(std::move(node)),
      members_(std::move(members)),
      host_(place_of(*node_, members_.instances)),
      sockets_(connect(Purpose::Data, id, look_around)) {}

std::vector<UniqueFd> TcpFabric::connect(Purpose purpose, std::uint64_t id,
                                         const LookAround& look_around) const {
  return node_->connect(members_.instances, purpose, id, [&](std::span<const int> missing) {
    std::vector<int> hosts;
    for (const int instance : missing) {
      hosts.push_back(static_cast<int>(std::ranges::find(members_.instances, instance) -
                                       members_.instances.begin()));
    }
    look_around(hosts);
  });
}

void TcpFabric::exchange(std::span<const Send> sends, std::span<const Receive> receives,
                         const LookAround& look_around) {
  Traffic traffic(sockets_);
  for (const auto& send : sends) traffic.add(send);
  for (const auto& receive : receives) traffic.add(receive);
  traffic.run(look_around);
  if (traffic.lost() < 0) return;
  throw Error(
      ErrorKind::PeerLost,
      fmt::format("host {} is gone", members_.names[static_cast<std::size_t>(traffic.lost())]),
      "its own output says why; this instance is only a victim");
}

std::unique_ptr<hosts::Fabric> TcpFabric::split(std::span<const int> hosts, std::uint64_t id,
                                                const LookAround& look_around) {
  Members some;
  for (const int host : hosts) {
    some.instances.push_back(members_.instances[static_cast<std::size_t>(host)]);
    some.names.push_back(members_.names[static_cast<std::size_t>(host)]);
  }
  // Whoever is waited for is named by its place among all.
  const auto look_around_from_here = [&](std::span<const int> waiting_for) {
    std::vector<int> here;
    for (const int place : waiting_for) here.push_back(hosts[static_cast<std::size_t>(place)]);
    look_around(here);
  };
  auto fabric = std::make_unique<TcpFabric>(node_, std::move(some), id, look_around_from_here);
  fabric->notes_ = notes_;
  return fabric;
}

void TcpFabric::tell(const hosts::Note& note) noexcept {
  if (notes_) notes_->tell(note);
}

std::vector<hosts::Note> TcpFabric::take_notes() {
  return notes_ ? notes_->take() : std::vector<hosts::Note>();
}

}  // namespace lockstep::comm::tcp
