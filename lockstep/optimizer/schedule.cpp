#include "lockstep/optimizer/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lockstep/optimizer/words.h"

namespace lockstep {
namespace {

using Word = std::string_view;

// In the order of the enumeration, so that a kind is the place of its name.
constexpr std::array kScheduleNames{Word("constant"), Word("step"), Word("cosine"), Word("linear")};

double total_steps(const RunLength& length) {
  return static_cast<double>(length.steps_per_epoch) * static_cast<double>(length.epochs);
}

double warmup_steps(const Schedule& schedule, const RunLength& length) {
  return std::round(schedule.warmup_epochs * static_cast<double>(length.steps_per_epoch));
}

[[noreturn]] void refuse(const std::string& expected, double found, std::string hint = {}) {
  throw Error(ErrorKind::Options, fmt::format("schedule: expected {}, found {}", expected, found),
              std::move(hint));
}

void expect_not_negative(const char* what, double number) {
  if (!(number >= 0) || std::isinf(number)) refuse(fmt::format("{} of 0 or more", what), number);
}

void check_length(const RunLength& length) {
  if (length.steps_per_epoch < 1) {
    refuse("at least 1 step in an epoch", static_cast<double>(length.steps_per_epoch));
  }
  if (length.epochs < 1) refuse("at least 1 epoch", static_cast<double>(length.epochs));
}

void check_warmup(const Schedule& schedule, const RunLength& length) {
  expect_not_negative("a warm-up", schedule.warmup_epochs);
  const auto steps = warmup_steps(schedule, length);
  if (steps < total_steps(length)) return;
  throw Error(ErrorKind::Options,
              fmt::format("schedule: expected a warm-up shorter than the run's {} steps, found {} "
                          "({} epochs)",
                          total_steps(length), steps, schedule.warmup_epochs),
              "warm up for fewer epochs, or train for more");
}

/// Falls at the step nearest to each multiple of `step_epochs`, which need not be whole steps.
double step_curve(const Schedule& schedule, const RunLength& length, double step) {
  const auto interval = schedule.step_epochs * static_cast<double>(length.steps_per_epoch);
  return std::pow(schedule.step_factor, std::floor((step + 0.5) / interval));
}

/// From 1 down to `final_factor`; `height` falls from 1 to 0 over the run.
double between(const Schedule& schedule, double height) {
  return schedule.final_factor + (1 - schedule.final_factor) * height;
}

}  // namespace

ScheduleKind parse_schedule(std::string_view name) {
  return optimizer::parse_word<ScheduleKind>("schedule", name, kScheduleNames);
}

std::string_view name_of(ScheduleKind kind) noexcept {
  return kScheduleNames[static_cast<std::size_t>(kind)];
}

std::vector<std::string> schedule_names() {
  return {kScheduleNames.begin(), kScheduleNames.end()};
}

void check(const Schedule& schedule, const RunLength& length) {
  check_length(length);
  check_warmup(schedule, length);
  if (!(schedule.step_epochs > 0) || std::isinf(schedule.step_epochs)) {
    refuse("more than 0 epochs from fall to fall", schedule.step_epochs);
  }
  expect_not_negative("a step factor", schedule.step_factor);
  expect_not_negative("a final factor", schedule.final_factor);
}

double factor(const Schedule& schedule, const RunLength& length, std::int64_t step) {
  const auto total = total_steps(length);
  const auto warmup = warmup_steps(schedule, length);
  const auto at = std::min(static_cast<double>(step), total - 1);
  if (at < warmup) return (at + 1) / warmup;
  const auto passed = (at - warmup) / (total - warmup);
  switch (schedule.kind) {
    case ScheduleKind::Constant:
      return 1;
    case ScheduleKind::Step:
      return step_curve(schedule, length, at - warmup);
    case ScheduleKind::Cosine:
      return between(schedule, (1 + std::cos(std::numbers::pi * passed)) / 2);
    case ScheduleKind::Linear:
      return between(schedule, 1 - passed);
  }
  return 1;
}

}  // namespace lockstep
