#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

/// A point of a job's curves. Unknown values are NaN.
struct CurvePoint {
  std::int64_t step = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();
};

/// The time shares of the instances of a job at a step; instances without known shares are missing.
struct SharePoint {
  std::int64_t step = 0;
  std::map<int, TimeShares> instances{};
};

/// The curves of one job, from its first step to its last, in bounded memory. If the memory is
/// full, every second point is removed, and from then on only every second new point is kept. A
/// point has a member `step`.
template <typename Point>
class CurveHistory {
 public:
  explicit CurveHistory(std::size_t most_points = 400) : most_points_(most_points) {}

  /// Adds a point. Removes the points of the same and of later steps first, as after a restart.
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
