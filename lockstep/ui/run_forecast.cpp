#include "lockstep/ui/run_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace lockstep::ui {
namespace {

constexpr std::int64_t kMinutesPerHour = 60;
constexpr std::int64_t kMinutesPerDay = 24 * kMinutesPerHour;
/// No calendar needs later ends, and a `std::tm` could not hold all of them.
constexpr double kLatestEnd = 100.0 * 365 * 24 * 3600;

bool is_same_day(const std::tm& a, const std::tm& b) {
  return a.tm_year == b.tm_year && a.tm_yday == b.tm_yday;
}

}  // namespace

void RunForecast::begin_epoch(const Epoch& epoch, Time now) {
  if (!began_) began_ = now;
  epoch_ = epoch;
  iteration_ = 0;
  last_ = now;
}

void RunForecast::end_iteration(std::int64_t iteration, Time now) {
  if (has_warmed_up_) iterations_.add(now - last_);
  has_warmed_up_ = true;
  iteration_ = iteration;
  last_ = now;
}

void RunForecast::begin_evaluation(Time now) {
  evaluation_began_ = now;
}

void RunForecast::end_evaluation(Time now) {
  if (!evaluation_began_) return;
  evaluations_.add(now - *std::exchange(evaluation_began_, std::nullopt));
  epoch_.evaluations = std::max<std::int64_t>(0, epoch_.evaluations - 1);
  last_ = now;
}

std::optional<RunForecast::Seconds> RunForecast::time_left() const {
  if (epoch_.epochs < 2 || !began_ || iterations_.sum < kLeastMeasured) return std::nullopt;
  const auto epochs_left = static_cast<double>(epoch_.epochs - epoch_.epoch);
  const auto per_epoch = static_cast<double>(epoch_.iterations);
  const auto iterations_left = (epochs_left + 1) * per_epoch - static_cast<double>(iteration_);
  const auto left = iterations_.value() * std::max(0.0, iterations_left) +
                    evaluations_.value() * static_cast<double>(epoch_.evaluations);
  if (Seconds(last_ - *began_) + left < kShortestRun) return std::nullopt;
  return left;
}

std::string end_text(RunForecast::Seconds left, const LocalClock& clock) {
  using std::chrono::seconds;
  constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr seconds kDay(24 * 3600);
  const seconds from_now(std::llround(std::clamp(left.count(), 0.0, kLatestEnd)));
  const auto end = clock(from_now);
  const auto time = fmt::format("{:02}:{:02}", end.tm_hour, end.tm_min);
  if (is_same_day(end, clock(seconds(0)))) return time;
  // A day of the week alone would be ambiguous after a week.
  if (from_now < 6 * kDay) {
    return fmt::format("{} {}", kDays.at(static_cast<std::size_t>(end.tm_wday)), time);
  }
  return fmt::format("{:04}-{:02}-{:02} {}", end.tm_year + 1900, end.tm_mon + 1, end.tm_mday, time);
}

std::string duration_text(RunForecast::Seconds left) {
  const auto minutes = std::llround(std::clamp(left.count(), 0.0, kLatestEnd) / 60);
  if (minutes < 1) return "less than 1 min";
  if (minutes < kMinutesPerHour) return fmt::format("{} min", minutes);
  if (minutes < 2 * kMinutesPerDay) {
    return fmt::format("{} h {:02} min", minutes / kMinutesPerHour, minutes % kMinutesPerHour);
  }
  return fmt::format("{} days {} h", minutes / kMinutesPerDay,
                     minutes % kMinutesPerDay / kMinutesPerHour);
}

}  // namespace lockstep::ui
