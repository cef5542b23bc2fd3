#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>

#include "lockstep/monitor/devices/job_sampler.h"

namespace lockstep::monitor {

/// What an instance did lately.
struct RecentTime {
  PhaseSeconds seconds{};
  double seconds_per_step = 0;  ///< 0 where no step has been seen yet
};

/// Where the time of instances went in about their last ten seconds: pages have sums since the
/// beginning, in which a disk that becomes slow after hours would not show for hours.
///
/// What counts are seconds that instances have measured, not those between two looks, so steps of
/// minutes count as well: then it is the last one. Until two seconds were seen of an instance it is
/// told of as since its beginning. Takes some 20 marks for each instance of the last look.
class RecentTimes {
 public:
  /// Takes what the pages say now, and forgets processes that are not there any more.
  void add(const HostSnapshot& snapshot);

  /// Of an instance that was in the last snapshot.
  RecentTime of(const WatchedJob& job, const WatchedInstance& instance) const;

 private:
  struct Mark {
    PhaseSeconds seconds{};
    std::int64_t steps = 0;
  };
  /// User, job, instance, process and its start.
  using Key = std::tuple<std::string, std::string, int, int, std::uint64_t>;

  static Key key_of(const WatchedJob& job, const InstanceFacts& facts);

  std::map<Key, std::deque<Mark>> marks_;  ///< the oldest first
};

/// All of them together.
double total(const PhaseSeconds& seconds) noexcept;

/// Optimizer steps since the training began: those of an epoch begin anew with each.
std::int64_t steps_so_far(const InstanceState& state) noexcept;

}  // namespace lockstep::monitor
