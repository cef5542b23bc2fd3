#include "lockstep/comm/mpi/module.h"

#include "lockstep/comm/mpi/mpi_fabric.h"
#include "lockstep/comm/mpi/mpi_thread.h"

namespace lockstep::comm::mpi {
namespace {

/// The fabric of all hosts, which has the tag 0 everywhere.
std::unique_ptr<hosts::Fabric> fabric_of_all(const std::shared_ptr<MpiUse>& use) {
  auto& thread = use->thread();
  if (!thread.host()) return nullptr;
  std::vector<MpiFabric::Member> members;
  for (int host = 0; host < static_cast<int>(thread.map().hosts.size()); ++host) {
    members.push_back({host, 0});
  }
  return std::make_unique<MpiFabric>(use, std::move(members), *thread.host());
}

Joined join_here(const std::vector<int>& local_instances, int instance,
                 const std::string& host_name, const WaitOptions& options) {
  const auto use =
      std::make_shared<MpiUse>(MpiThread::start({instance, local_instances, host_name}, options));
  return {use->thread().map(), fabric_of_all(use), use};
}

}  // namespace
}  // namespace lockstep::comm::mpi

extern "C" __attribute__((visibility("default"))) const lockstep::comm::mpi::Module*
lockstep_mpi_module() {
  static const std::string build = lockstep::comm::mpi::build_name();
  static const lockstep::comm::mpi::Module module{build.c_str(), lockstep::comm::mpi::join_here};
  return &module;
}
