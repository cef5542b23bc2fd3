#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/events/train_results.h"
#include "lockstep/ui/progress_bar.h"

namespace lockstep::ui {

/// A bar at one moment.
struct BarState {
  std::string_view label;
  std::int64_t done = 0;
  std::int64_t total = 0;  ///< 0 where nobody knows
  std::chrono::duration<double> elapsed{0};
  std::string_view postfix{};  ///< "loss=1.45, acc=48.4"
  std::int64_t initial = 0;    ///< of `done`, what was done before the time began
  BarTimes times = BarTimes::ElapsedAndRate;
};

/// The bar as tqdm writes it, ten cells wide:
///
///     [Epoch 01]:  50%|█████     | 12/24 [00:24<00:24,  2.03s/it, loss=1.45, acc=48.4]
///
/// Without a total, and where more is done than the total says, it counts only.
std::string bar_text(const BarState& state);

/// A number with three significant digits as tqdm shortens it: "48.4", "1.23e+4"; whole where that
/// is no longer: "1234".
std::string short_number(double value);

/// "loss=1.45, acc=48.4"
std::string postfix_text(std::span<const events::NamedValue> values);

}  // namespace lockstep::ui
