#pragma once

#include <signal.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/events/job_events.h"
#include "lockstep/launch/engine/engine.h"
#include "lockstep/launch/hosts/channel.h"
#include "lockstep/launch/supervise/death_watch.h"
#include "lockstep/launch/supervise/instance_process.h"

namespace lockstep::launch {

/// A process of an engine: ssh, mpirun, srun, or an agent of this machine. What it writes is kept
/// for the report of a failure, and shown nowhere else.
class EngineProcess {
 public:
  /// Throws `NotFound`, `NotExecutable` or `Io`.
  EngineProcess(const EngineCommand& command, const topology::Environment& environment,
                const sigset_t& signal_mask, DeathWatch& deaths);

  pid_t pid() const noexcept { return pid_; }
  const std::vector<int>& hosts() const noexcept { return hosts_; }

  /// The channel that it carries; once.
  std::optional<Channel> take_channel();

  /// What it writes, to be polled; -1 when it writes no more.
  int output() const noexcept { return output_.get(); }
  void read_output();
  std::vector<std::string> last_lines() const { return tail_.lines(); }

  void note_end(const events::ExitStatus& status);
  bool has_ended() const noexcept { return status_.has_value(); }
  const std::optional<events::ExitStatus>& status() const noexcept { return status_; }

 private:
  /// What ssh says stands before a page of advice from mpirun.
  static constexpr std::size_t kMostLines = 200;

  pid_t pid_ = 0;
  std::vector<int> hosts_;
  UniqueFd channel_;
  UniqueFd output_;
  Tail tail_{kMostLines};
  std::optional<events::ExitStatus> status_;
};

}  // namespace lockstep::launch
