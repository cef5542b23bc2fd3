#include "lockstep/checkpoint/interval.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/data/formats/bytes.h"

namespace lockstep::checkpoint {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 3600;
/// From here on not every whole number is a double.
constexpr double kMostCount = 9007199254740992;

struct UnitName {
  std::string_view name;
  Interval::Unit unit;
  double factor;
};

constexpr std::array kUnitNames{
    UnitName{"", Interval::Unit::Steps, 1},
    UnitName{"step", Interval::Unit::Steps, 1},
    UnitName{"steps", Interval::Unit::Steps, 1},
    UnitName{"epoch", Interval::Unit::Epochs, 1},
    UnitName{"epochs", Interval::Unit::Epochs, 1},
    UnitName{"s", Interval::Unit::Seconds, 1},
    UnitName{"min", Interval::Unit::Seconds, kMinute},
    UnitName{"h", Interval::Unit::Seconds, kHour},
};

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

std::optional<Interval> understood(std::string_view text) {
  if (text == "never" || text == "0") return Interval{};
  // from_chars takes "inf" for a number.
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  double count = 0;
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const auto name = trim(std::string_view(stop, static_cast<std::size_t>(end - stop)));
  for (const auto& unit : kUnitNames) {
    if (name != unit.name) continue;
    count *= unit.factor;
    const bool is_whole = unit.unit == Interval::Unit::Seconds || count == std::floor(count);
    if (count > 0 && count <= kMostCount && is_whole) return Interval{unit.unit, count};
  }
  return std::nullopt;
}

}  // namespace

Interval parse_interval(std::string_view where, std::string_view text) {
  if (const auto interval = understood(trim(text))) return *interval;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected how often, found '{}'", where, data::printable(text)),
              "500 steps, 2 epochs, 30s, 10min, 1.5h or never");
}

}  // namespace lockstep::checkpoint
