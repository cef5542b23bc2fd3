#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep::train {

/// How a model that goes on where an earlier run was tells the loader where that is. Options hand
/// it to both; copies of them share it. One thread at a time.
class LoopPosition {
 public:
  struct Point {
    std::int64_t loader = 0;  ///< that is meant
    std::int64_t epoch = 0;   ///< of the loader, from 0
  };

  /// The next walk over that loader begins there.
  void go_to(const Point& point) { next_ = point; }
  std::optional<Point> take(std::int64_t loader) {
    if (!next_ || next_->loader != loader) return std::nullopt;
    return std::exchange(next_, std::nullopt);
  }

  /// Numbers loaders in the order in which they are made.
  int add_loader() { return num_loaders_++; }
  void add_model() { ++num_models_; }
  int num_models() const noexcept { return num_models_; }

 private:
  std::optional<Point> next_;
  int num_loaders_ = 0;
  int num_models_ = 0;
};

}  // namespace lockstep::train
