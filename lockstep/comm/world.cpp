#include "lockstep/comm/world.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/connect.h"
#include "lockstep/topology/environment.h"

namespace lockstep {

/// A process is one instance, and can join the job once; it leaves with the last `World`.
std::shared_ptr<World::Connection> World::connection_of_this_process() {
  static std::mutex mutex;
  static std::weak_ptr<Connection> shared;
  const std::lock_guard lock(mutex);
  auto connection = shared.lock();
  if (!connection) shared = connection = std::make_shared<Connection>();
  return connection;
}

World World::init() {
  World world(topology::read_identity(topology::Environment::of_this_process()));
  world.connection_ = connection_of_this_process();
  world.is_this_process_ = true;
  return world;
}

World::World(topology::Identity identity, comm::Communicator& communicator)
    : identity_(std::move(identity)) {
  connection_->communicator = &communicator;
}

comm::Communicator& World::communicator() const& {
  std::call_once(connection_->once, [this] {
    if (connection_->communicator != nullptr) return;
    connection_->own = comm::connect(identity_);
    connection_->communicator = connection_->own.get();
  });
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
