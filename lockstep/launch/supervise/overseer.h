#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <vector>

namespace lockstep::launch {

class Supervisor;

/// Whoever decides for a supervisor where a job has several, one on each host: it is told what
/// happens through the sink, judges, and tells the supervisor what to do.
///
/// The supervisor asks it in its own poll loop, between two waits.
class Overseer {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Overseer() = default;

  /// What to wait for beside the supervisor's own descriptors.
  virtual std::vector<pollfd> descriptors() const = 0;
  /// When it has something to do though nothing happens.
  virtual std::optional<Clock::time_point> next_time() const = 0;
  /// Does what has come in and what is due: it may call the supervisor.
  virtual void attend(Supervisor& supervisor) = 0;
  /// This process was told to end the job. It does not, by itself.
  virtual void note_signal(int signal) = 0;
  /// Somebody has killed the warden: what follows is no fault of the instances.
  virtual void note_warden_gone() = 0;
};

}  // namespace lockstep::launch
