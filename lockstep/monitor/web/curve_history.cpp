#include "lockstep/monitor/web/curve_history.h"

namespace lockstep::monitor {

void CurveHistory::add(const CurvePoint& point) {
  while (!points_.empty() && points_.back().step > point.step) {
    points_.pop_back();
    last_is_passing_ = false;
  }
  if (!points_.empty() && points_.back().step == point.step) {
    points_.back() = point;
    return;
  }
  if (last_is_passing_) points_.pop_back();
  if (points_.size() >= most_points_) thin_out();
  points_.push_back(point);
  // The newest point always shows, however few are kept.
  last_is_passing_ = ++since_kept_ < kept_every_ && points_.size() > 1;
  if (!last_is_passing_) since_kept_ = 0;
}

void CurveHistory::thin_out() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
  points_.resize(kept);
  kept_every_ *= 2;
}

}  // namespace lockstep::monitor
