#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lockstep::monitor {

/// How many of something there are in a second, over the last seconds: it follows a change within
/// them, and does not jump from one step to the next.
///
/// Steps of minutes count as well: a rate is over at least one step, however long it took. There is
/// none, 0, in the first moments, in which nothing can be measured.
class RateMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// From now on, with nothing before it: for what begins, or goes on after a pause.
  void restart(TimePoint now) noexcept {
    marks_.fill({now, total_});
    next_ = 0;
  }

  void add(std::int64_t count, TimePoint now) noexcept {
    total_ += count;
    const auto& oldest = marks_[next_];
    const std::chrono::duration<double> passed = now - oldest.time;
    if (passed >= kLeast) rate_ = static_cast<double>(total_ - oldest.total) / passed.count();
    const auto newest = (next_ + marks_.size() - 1) % marks_.size();
    if (now - marks_[newest].time < kSpacing) return;
    marks_[next_] = {now, total_};
    next_ = (next_ + 1) % marks_.size();
  }

  double per_second() const noexcept { return rate_; }

 private:
  static constexpr auto kSpacing = std::chrono::milliseconds(500);
  static constexpr auto kLeast = std::chrono::milliseconds(50);
  struct Mark {
    TimePoint time{};
    std::int64_t total = 0;
  };

  std::array<Mark, 8> marks_{};  ///< the oldest of them at `next_`
  std::size_t next_ = 0;
  std::int64_t total_ = 0;
  double rate_ = 0;
};

}  // namespace lockstep::monitor
