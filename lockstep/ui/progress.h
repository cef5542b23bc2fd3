#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "lockstep/base/export.h"
#include "lockstep/ui/progress_bar.h"

namespace lockstep {
namespace ui {

/// A value that stands in a label or behind a bar.
using Shown = std::variant<std::int64_t, double, std::string>;

template <typename Value>
Shown to_shown(const Value& value) {
  if constexpr (std::integral<Value>) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::convertible_to<const Value&, std::string_view>) {
    return std::string(std::string_view(value));
  } else {
    return static_cast<double>(value);
  }
}

/// "[Epoch {:02}]" with its values, in the language of std::format.
/// Errors: `Options` where they do not fit together.
LOCKSTEP_API std::string format_label(std::string_view pattern, std::span<const Shown> values);

/// Appends "name=value", numbers with three significant digits.
LOCKSTEP_API void append_postfix(std::string& postfix, std::string_view name, const Shown& value);

/// Bars on standard output, as this process's place in its job asks for.
LOCKSTEP_API BarOutput output_of_this_process();

template <typename Range>
std::int64_t number_of_elements(Range& range) {
  if constexpr (requires { range.iterations(); }) {
    return static_cast<std::int64_t>(range.iterations());
    // cppcheck-suppress identicalConditionAfterEarlyExit  // it does not look into `requires`
  } else if constexpr (requires { range.batches_per_epoch(); }) {
    return static_cast<std::int64_t>(range.batches_per_epoch());
    // cppcheck-suppress identicalConditionAfterEarlyExit
  } else if constexpr (requires { std::size(range); }) {
    return static_cast<std::int64_t>(std::size(range));
  } else {
    return 0;  // the bar then counts only
  }
}

}  // namespace ui

/// A range that shows how far a loop over it is. Made by `progress`.
///
/// One loop at a time, on one thread. An element counts when the loop asks for the next; the bar
/// ends with the loop; after a `break` or an exception, with `finish` or with this object.
template <typename Range>
class Progress {
 public:
  /// `Range` is a reference where the caller keeps the range.
  Progress(Range&& range, std::string label, ui::BarOutput output)
      : range_(std::forward<Range>(range)), label_(std::move(label)), output_(std::move(output)) {}

  class Iterator;
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }

  /// What stands behind the bar, as names and values: `postfix("loss", 1.45, "acc", 48.4)`.
  template <typename... NamesAndValues>
  void postfix(const NamesAndValues&... names_and_values) {
    static_assert(sizeof...(names_and_values) % 2 == 0, "each name needs a value");
    if (!bar_ || bar_->is_silent()) return;
    std::string text;
    append(text, names_and_values...);
    bar_->set_postfix(std::move(text));
  }

  /// Writes a line above the bar.
  void write_line(std::string_view line) {
    if (bar_) return bar_->write_line(line);
    output_.write(std::string(line) + "\n");
  }

  void finish() {
    if (bar_) bar_->finish();
  }

 private:
  static void append(std::string&) {}
  template <typename Value, typename... Rest>
  static void append(std::string& text, std::string_view name, const Value& value,
                     const Rest&... rest) {
    ui::append_postfix(text, name, ui::to_shown(value));
    append(text, rest...);
  }

  Range range_;
  std::string label_;
  ui::BarOutput output_;
  std::optional<ui::ProgressBar> bar_;
};

/// Yields what the range yields.
template <typename Range>
class Progress<Range>::Iterator {
 public:
  using Base = decltype(std::begin(std::declval<Range&>()));
  using End = decltype(std::end(std::declval<Range&>()));

  Iterator(Progress& progress, Base base, End end)
      : progress_(&progress), base_(std::move(base)), end_(std::move(end)) {}

  decltype(auto) operator*() const { return *base_; }
  Iterator& operator++() {
    auto& bar = *progress_->bar_;
    bar.update(bar.done() + 1);
    ++base_;
    if (base_ == end_) bar.finish();
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return base_ == end_; }

 private:
  Progress* progress_;
  Base base_;
  End end_;
};

template <typename Range>
auto Progress<Range>::begin() -> Iterator {
  bar_.reset();
  bar_.emplace(output_, label_, ui::ProgressBar::Options{.total = ui::number_of_elements(range_)});
  auto first = std::begin(range_);
  // What an earlier run has done of it.
  if constexpr (requires { first.done(); }) bar_->begin_at(first.done());
  Iterator iterator(*this, std::move(first), std::end(range_));
  if (iterator == end()) bar_->finish();
  return iterator;
}

/// Shows how far a loop is, on standard output; silent except on instance 0.
///
///     auto bar = lockstep::progress(loader, "[Epoch {:02}]", epoch);
///     for (auto& batch : bar) {
///       const auto result = model.step(batch);
///       bar.postfix("loss", result.loss, "acc", result.accuracy);
///     }
///
/// The range has begin() and end(), and iterations(), batches_per_epoch() or size() where it knows
/// how long it is. A temporary is kept, anything else must outlive the bar.
///
/// Errors: `Options` where label and values do not fit together, and those of `World::init`.
template <typename Range, typename... Values>
Progress<Range> progress(Range&& range, std::string_view label, const Values&... values) {
  const std::initializer_list<ui::Shown> shown{ui::to_shown(values)...};
  return {std::forward<Range>(range), ui::format_label(label, {shown.begin(), shown.size()}),
          ui::output_of_this_process()};
}

}  // namespace lockstep
