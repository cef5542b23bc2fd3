#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/ui/progress_bar.h"

namespace lockstep::testing {

/// Standard output with a clock that stands still until it is told.
struct Screen {
  std::string written;
  std::chrono::steady_clock::time_point now{};
  std::optional<int> columns{};

  ui::BarOutput output(ui::BarStyle style) {
    return {.style = style,
            .write = [this](std::string_view text) { written += text; },
            .now = [this] { return now; },
            .columns = [this] { return columns; }};
  }

  void pass(std::chrono::duration<double> time) {
    now += std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
  }

  /// What was written since the last call.
  std::string take() { return std::exchange(written, {}); }
};

}  // namespace lockstep::testing
