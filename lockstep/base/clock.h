#pragma once

#include <chrono>
#include <utility>

namespace lockstep {

/// Seconds since 1970.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Measures durations in seconds.
class Stopwatch {
 public:
  /// Returns the time since the last call, or since the construction.
  double lap() {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(begin_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begin_ = Clock::now();
};

}  // namespace lockstep
