#pragma once

#include "lockstep/launch/engine/engine.h"

namespace lockstep::launch {

/// Open MPI's mpirun starts one agent per host. They find the launcher, and prove themselves, by
/// variables that mpirun hands on.
class MpirunEngine final : public Engine {
 public:
  explicit MpirunEngine(EngineOptions options) : options_(std::move(options)) {}

  EngineKind kind() const noexcept override { return EngineKind::Mpirun; }
  std::vector<EngineCommand> commands(const std::vector<int>& hosts) const override;
  bool starts_all_at_once() const noexcept override { return true; }

 private:
  EngineOptions options_;
};

}  // namespace lockstep::launch
