#include "lockstep/comm/mpi/module.h"

#include "lockstep/comm/mpi/mpi_fabric.h"
#include "lockstep/comm/mpi/mpi_thread.h"

namespace lockstep::comm::mpi {
namespace {

Joined join_here(const Place& place, const WaitOptions& options) {
  const auto use = std::make_shared<MpiUse>(MpiThread::start(place, options));
  return {.map = use->thread().map(),
          .fabric = place.is_leader() ? MpiFabric::of_leaders(use) : nullptr,
          .connect =
              [use](std::span<const int> instances, std::uint64_t id,
                    const hosts::Fabric::LookAround& look_around) {
                return MpiFabric::of_instances(use, instances, id, look_around);
              },
          .session = use};
}

}  // namespace
}  // namespace lockstep::comm::mpi

extern "C" __attribute__((visibility("default"))) const lockstep::comm::mpi::Module*
lockstep_mpi_module() {
  static const std::string build = lockstep::comm::mpi::build_name();
  static const lockstep::comm::mpi::Module module{build.c_str(), lockstep::comm::mpi::join_here};
  return &module;
}
