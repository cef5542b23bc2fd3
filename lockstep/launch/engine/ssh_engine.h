#pragma once

#include "lockstep/launch/engine/engine.h"

namespace lockstep::launch {

/// One connection per host, which carries the agent's channel: the launcher need not listen. It
/// never asks for a password. A host that is this machine needs no connection; where all are, this
/// is the engine for that.
class SshEngine final : public Engine {
 public:
  SshEngine(EngineKind kind, EngineOptions options) : kind_(kind), options_(std::move(options)) {}

  EngineKind kind() const noexcept override { return kind_; }
  std::vector<EngineCommand> commands(const std::vector<int>& hosts) const override;
  bool starts_all_at_once() const noexcept override { return false; }

 private:
  EngineKind kind_;
  EngineOptions options_;
};

}  // namespace lockstep::launch
