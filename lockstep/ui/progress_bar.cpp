#include "lockstep/ui/progress_bar.h"

#include <algorithm>

#include "lockstep/ui/bar_text.h"
#include "lockstep/ui/text_width.h"

namespace lockstep::ui {

std::tm local_time_of_this_machine(std::chrono::seconds from_now) {
  using std::chrono::system_clock;
  const auto then = system_clock::to_time_t(system_clock::now() + from_now);
  std::tm time{};
  ::localtime_r(&then, &time);
  return time;
}

ProgressBar::ProgressBar(BarOutput output, std::string label, Options options)
    : output_(std::move(output)),
      label_(std::move(label)),
      options_(std::move(options)),
      postfix_(std::move(options_.postfix)),
      done_(options_.initial),
      began_(output_.now()),
      last_drawn_(began_) {
  if (output_.style == BarStyle::Live) draw();
}

ProgressBar::~ProgressBar() {
  try {
    finish();
  } catch (...) {
    // The screen is gone, or memory is: nobody is left to be told here.
  }
}

std::string ProgressBar::text() const {
  return bar_text({.label = label_,
                   .done = done_,
                   .total = options_.total,
                   .elapsed = output_.now() - began_,
                   .postfix = postfix_,
                   .initial = options_.initial,
                   .times = options_.times});
}

/// Spaces, since a launcher or a log may not know a terminal's codes.
std::string ProgressBar::erasure() const {
  return columns_drawn_ == 0 ? "" : "\r" + std::string(columns_drawn_, ' ') + "\r";
}

void ProgressBar::draw() {
  last_drawn_ = output_.now();
  if (output_.style == BarStyle::Lines) {
    output_.write(text() + "\n");
    return;
  }
  auto frame = text();
  if (const auto columns = output_.columns()) {
    frame.resize(clip(frame, static_cast<std::size_t>(std::max(1, *columns - 1))).size());
  }
  const auto width = width_of(frame);
  const auto before = width < columns_drawn_ ? erasure() : "\r";
  columns_drawn_ = width;
  output_.write(before + frame);
}

void ProgressBar::update(std::int64_t done) {
  done_ = done;
  if (is_over_ || is_silent()) return;
  // The full bar is the one that finishing writes. Another one before it would stay, in a file and
  // where a launcher makes lines of frames.
  if (options_.total > 0 && done_ == options_.total) return;
  const std::chrono::steady_clock::duration interval =
      output_.style == BarStyle::Live ? kFrameInterval : kLineInterval;
  if (output_.now() - last_drawn_ >= interval) draw();
}

void ProgressBar::update_now(std::int64_t done) {
  if (output_.style != BarStyle::Live || is_over_) return update(done);
  done_ = done;
  draw();
}

void ProgressBar::begin_at(std::int64_t done) {
  options_.initial = done;
  done_ = done;
}

void ProgressBar::write_line(std::string_view line) {
  auto text = erasure() + std::string(line) + "\n";
  columns_drawn_ = 0;
  output_.write(text);
  show();
}

void ProgressBar::hide() {
  if (columns_drawn_ == 0) return;
  output_.write(erasure());
  columns_drawn_ = 0;
}

void ProgressBar::show() {
  if (output_.style == BarStyle::Live && !is_over_) draw();
}

void ProgressBar::finish() {
  if (is_over_) return;
  is_over_ = true;
  if (is_silent()) return;
  // Whole even where it is wider than the terminal: nothing is drawn over it any more.
  const auto last = text();
  const bool is_live = output_.style == BarStyle::Live;
  const auto before = !is_live ? "" : width_of(last) < columns_drawn_ ? erasure() : "\r";
  columns_drawn_ = 0;
  output_.write(before + last + "\n");
}

void ProgressBar::complete() {
  done_ = options_.total;
  finish();
}

void ProgressBar::vanish() {
  if (is_over_) return;
  is_over_ = true;
  hide();
}

}  // namespace lockstep::ui
