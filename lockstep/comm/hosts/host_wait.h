#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/host/member.h"
#include "lockstep/comm/hosts/host_map.h"

namespace lockstep::comm::hosts {

/// The patience of an instance that waits for other hosts: it throws the job's verdict where there
/// is one, warns once of a host that is late, and gives up at the deadline. A host whose instances
/// say that they are busy is not late. One thread uses it at a time.
class HostWait {
 public:
  /// `hosts` are the numbers, in the job, of those that may be waited for.
  HostWait(host::Member& member, const HostMap& map, std::vector<int> hosts);

  /// A wait begins, in an operation that messages name so.
  void begin(const std::string& title, std::uint64_t operation);
  /// Looks at those that are waited for, and nothing has come from since the last look, given by
  /// their places among `hosts`.
  /// Errors: those of a collective.
  void look(std::span<const int> waiting_for);

 private:
  using Clock = host::Clock;
  struct Sight {
    int host;  ///< its number in the job
    Clock::time_point heard;
    Clock::time_point heartbeat;
    Clock::time_point left;
    Clock::time_point moved;  ///< when it was last one that something came from, in this wait
  };
  Sight sight_of(int place) const;
  void note_moved(std::span<const int> waiting_for, Clock::time_point now);
  bool is_silent(const Sight& sight) const;
  std::string describe(const Sight& sight) const;
  void report(const Sight& sight, Stall::Kind kind, const std::string& what) const;
  void give_up(const Sight& sight);
  void warn_once(const Sight& sight);

  host::Member& member_;
  const HostMap& map_;
  std::vector<int> hosts_;
  std::string title_;
  std::uint64_t operation_ = 0;
  std::uint64_t last_warned_ = ~std::uint64_t{0};
  Clock::time_point begin_{};
  Clock::time_point last_look_{};
  std::vector<Clock::time_point> moved_;  ///< by place
};

}  // namespace lockstep::comm::hosts
