#pragma once

#include <vector>

#include "lockstep/launch/engine/engine.h"
#include "lockstep/topology/host_list.h"

namespace lockstep::launch {

/// Within an allocation of Slurm's, srun starts one agent per node. They find the launcher, and
/// prove themselves, by variables that srun hands on.
class SrunEngine final : public Engine {
 public:
  explicit SrunEngine(EngineOptions options) : options_(std::move(options)) {}

  EngineKind kind() const noexcept override { return EngineKind::Srun; }
  std::vector<EngineCommand> commands(const std::vector<int>& hosts) const override;
  bool starts_all_at_once() const noexcept override { return true; }

 private:
  EngineOptions options_;
};

/// Whether this process has an allocation of several nodes or one, and is not a task of a step of
/// it, which somebody has placed already.
bool is_in_allocation(const topology::Environment& environment);

/// The nodes of the allocation; with as many instances each as tasks were asked for, where they
/// were. Throws `Options` where Slurm's variables cannot be read.
std::vector<topology::Host> hosts_of_allocation(const topology::Environment& environment);

}  // namespace lockstep::launch
