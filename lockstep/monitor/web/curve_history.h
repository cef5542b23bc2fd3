#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep::monitor {

/// A point of a job's curves. What is not known is not a number.
struct CurvePoint {
  std::int64_t step = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();
};

/// The curves of one job, from its first step to its last, in bounded memory: when it is full,
/// every second point is left out, and from then on only every second point is taken.
class CurveHistory {
 public:
  explicit CurveHistory(std::size_t most_points = 400) : most_points_(most_points) {}

  /// Takes a point. One that is behind the last, as after a restart, replaces what came after it;
  /// one of the same step replaces it.
  void add(const CurvePoint& point);

  const std::vector<CurvePoint>& points() const noexcept { return points_; }

 private:
  void thin_out();

  std::size_t most_points_;
  std::vector<CurvePoint> points_;
  bool last_is_passing_ = false;  ///< the newest point is shown, but not kept
  std::uint64_t kept_every_ = 1;
  std::uint64_t since_kept_ = 0;
};

}  // namespace lockstep::monitor
