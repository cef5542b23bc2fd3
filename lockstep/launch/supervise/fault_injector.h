#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/events/job_events.h"
#include "lockstep/launch/supervise/chaos.h"
#include "lockstep/launch/supervise/instance_process.h"

namespace lockstep::launch {

/// Does to a job what `--chaos` asks for. One that is due while no instance runs waits until one
/// does.
class FaultInjector {
 public:
  using Clock = std::chrono::steady_clock;

  FaultInjector(ChaosOptions options, Clock::time_point begin);

  /// When there is something to do.
  Clock::time_point next_time() const;

  /// Does what is due to these instances, and tells what it did.
  void act(Clock::time_point now, const std::vector<InstanceProcess>& instances,
           const std::optional<std::int64_t>& step, events::JobSink& sink);

  /// A new attempt begins: none of the processes before is left.
  void forget_instances() { to_continue_.clear(); }

 private:
  void inject(Clock::time_point now, const InstanceProcess& victim,
              const std::optional<std::int64_t>& step, events::JobSink& sink);
  void draw(Clock::time_point from);

  ChaosOptions options_;
  std::uint32_t next_index_ = 0;
  Fault fault_;  ///< the next one
  Clock::time_point due_;
  std::map<int, Clock::time_point> to_continue_;  ///< by instance
};

}  // namespace lockstep::launch
