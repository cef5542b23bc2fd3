#include "lockstep/comm/world.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/connect.h"

namespace lockstep {

World World::init() {
  return World(topology::read_identity(topology::Environment::of_this_process()));
}

comm::Communicator& World::communicator() const& {
  std::call_once(connection_->once,
                 [this] { connection_->communicator = comm::connect(identity_); });
  return *connection_->communicator;
}

std::span<const int> World::device_ids(int replica) const {
  const int local = replica - first_replica();
  if (local < 0 || local >= num_local_replicas()) {
    throw Error(
        ErrorKind::Options,
        fmt::format("World::device_ids: instance {} carries replicas {} to {}, not {}", instance(),
                    first_replica(), first_replica() + num_local_replicas() - 1, replica));
  }
  const auto stages = static_cast<std::size_t>(devices_per_replica());
  return device_ids().subspan(static_cast<std::size_t>(local) * stages, stages);
}

}  // namespace lockstep
