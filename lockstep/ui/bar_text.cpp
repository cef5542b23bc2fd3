#include "lockstep/ui/bar_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::ui {
namespace {

constexpr int kCells = 10;
constexpr int kPartsPerCell = 8;

std::string cells(double fraction) {
  constexpr std::array<std::string_view, kPartsPerCell> kPartly{" ", "▏", "▎", "▍",
                                                                "▌", "▋", "▊", "▉"};
  const auto parts = static_cast<int>(fraction * kCells * kPartsPerCell);
  const int full = parts / kPartsPerCell;
  std::string text;
  for (int i = 0; i < full; ++i) text += "█";
  if (full == kCells) return text;
  text += kPartly.at(static_cast<std::size_t>(parts % kPartsPerCell));
  return text.append(static_cast<std::size_t>(kCells - full - 1), ' ');
}

/// "04:05", with hours where there are any.
std::string clock_time(double seconds) {
  constexpr double kMost = 1e12;  // what is beyond is no time, and would not fit
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, kMost));
  const auto hours = whole / 3600;
  const auto minutes = whole / 60 % 60;
  if (hours == 0) return fmt::format("{:02}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

std::string rate_text(double per_second) {
  if (per_second == 0) return "?it/s";
  return per_second < 1 ? fmt::format("{:5.2f}s/it", 1 / per_second)
                        : fmt::format("{:5.2f}it/s", per_second);
}

/// What stands between the brackets. Without a total there is no end to wait for.
std::string times_text(const BarState& state, bool has_total) {
  auto text = clock_time(state.elapsed.count());
  if (state.times == BarTimes::Elapsed) return text;
  const auto counted = static_cast<double>(state.done - state.initial);
  const double rate =
      state.elapsed.count() > 0 ? std::max(0.0, counted / state.elapsed.count()) : 0;
  if (has_total) {
    const auto left = static_cast<double>(state.total - state.done);
    text += "<" + (rate > 0 ? clock_time(left / rate) : "?");
  }
  return text + ", " + rate_text(rate);
}

}  // namespace

std::string bar_text(const BarState& state) {
  const bool has_total = state.total > 0 && state.done <= state.total;
  auto text = std::string(state.label);
  if (!text.empty()) text += ": ";
  if (has_total) {
    const auto fraction = static_cast<double>(state.done) / static_cast<double>(state.total);
    text +=
        fmt::format("{:3.0f}%|{}| {}/{}", 100 * fraction, cells(fraction), state.done, state.total);
  } else {
    text += fmt::format("{}it", state.done);
  }
  text += " [" + times_text(state, has_total);
  if (!state.postfix.empty()) text += ", " + std::string(state.postfix);
  return text + "]";
}

std::string short_number(double value) {
  auto rounded = fmt::format("{:.3g}", value);
  const auto exponent = rounded.find('e');
  if (exponent != std::string::npos && rounded[exponent + 2] == '0') rounded.erase(exponent + 2, 1);
  auto exact = fmt::format("{}", value);
  return rounded.size() < exact.size() ? rounded : exact;
}

std::string postfix_text(std::span<const events::NamedValue> values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, short_number(value));
  }
  return text;
}

}  // namespace lockstep::ui
