#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace lockstep::monitor {

/// A point of a job's curves. What is not known is not a number.
struct CurvePoint {
  std::int64_t step = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();
};

/// Of the time of an instance, in percent.
struct TimeShares {
  std::uint8_t data = 0;
  std::uint8_t compute = 0;
  std::uint8_t reduce = 0;
  std::uint8_t idle = 0;
};

/// What the instances of a job did at a step; those of which nothing is known are not in it.
struct SharePoint {
  std::int64_t step = 0;
  std::map<int, TimeShares> instances{};
};

/// The curves of one job, from its first step to its last, in bounded memory: when it is full,
/// every second point is left out, and from then on only every second point is taken. A point has
/// a `step`.
template <typename Point>
class CurveHistory {
 public:
  explicit CurveHistory(std::size_t most_points = 400) : most_points_(most_points) {}

  /// Takes a point. One that is behind the last, as after a restart, replaces what came after it;
  /// one of the same step replaces it.
  void add(Point point) {
    while (!points_.empty() && points_.back().step > point.step) {
      points_.pop_back();
      last_is_passing_ = false;
    }
    if (!points_.empty() && points_.back().step == point.step) {
      points_.back() = std::move(point);
      return;
    }
    if (last_is_passing_) points_.pop_back();
    if (points_.size() >= most_points_) thin_out();
    points_.push_back(std::move(point));
    // The newest point always shows, however few are kept.
    last_is_passing_ = ++since_kept_ < kept_every_ && points_.size() > 1;
    if (!last_is_passing_) since_kept_ = 0;
  }

  const std::vector<Point>& points() const noexcept { return points_; }

 private:
  void thin_out() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < points_.size(); i += 2, ++kept) {
      if (kept != i) points_[kept] = std::move(points_[i]);
    }
    points_.resize(kept);
    kept_every_ *= 2;
  }

  std::size_t most_points_;
  std::vector<Point> points_;
  bool last_is_passing_ = false;  ///< the newest point is shown, but not kept
  std::uint64_t kept_every_ = 1;
  std::uint64_t since_kept_ = 0;
};

}  // namespace lockstep::monitor
