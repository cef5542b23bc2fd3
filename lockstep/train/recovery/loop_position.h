#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep::train {

/// Passes the position of a resumed run from the model to the loader. Both have it from their
/// options. One thread at a time.
class LoopPosition {
 public:
  struct Point {
    std::int64_t loader = 0;  ///< its number
    std::int64_t epoch = 0;   ///< of the loader, from 0
  };

  /// The next loop over this loader begins there.
  void go_to(const Point& point) { next_ = point; }
  std::optional<Point> take(std::int64_t loader) {
    if (!next_ || next_->loader != loader) return std::nullopt;
    return std::exchange(next_, std::nullopt);
  }

  /// Returns the number of the next loader.
  int add_loader() { return num_loaders_++; }
  void add_model() { ++num_models_; }
  int num_models() const noexcept { return num_models_; }

 private:
  std::optional<Point> next_;
  int num_loaders_ = 0;
  int num_models_ = 0;
};

}  // namespace lockstep::train
