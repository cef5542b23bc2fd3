#pragma once

#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/ui/progress_bar.h"

namespace lockstep::testing {

/// Standard output with a clock that stands still until `pass` is called.
struct Screen {
  std::string written;
  std::chrono::steady_clock::time_point now{};
  std::optional<int> columns{};

  ui::BarOutput output(ui::BarStyle style) {
    return {.style = style,
            .write = [this](std::string_view text) { written += text; },
            .now = [this] { return now; },
            .columns = [this] { return columns; },
            .local_time = [this](std::chrono::seconds from_now) { return local_time(from_now); }};
  }

  /// The clock begins at 14:00 on Monday, 2026-11-16.
  std::tm local_time(std::chrono::seconds from_now) const {
    using std::chrono::sys_days;
    using namespace std::chrono_literals;
    const auto begin = sys_days(2026y / 11 / 16) + 14h;
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch());
    const auto then = std::chrono::system_clock::to_time_t(begin + passed + from_now);
    std::tm time{};
    ::gmtime_r(&then, &time);
    return time;
  }

  void pass(std::chrono::duration<double> time) {
    now += std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
  }

  /// What was written since the last call.
  std::string take() { return std::exchange(written, {}); }
};

}  // namespace lockstep::testing
