#include "lockstep/launch/supervise/line_buffer.h"

namespace lockstep::launch {
namespace {

/// What a terminal shows of a line: the text behind the last carriage return that has any.
std::string_view shown(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const auto last_return = line.rfind('\r');
  return last_return == std::string_view::npos ? line : line.substr(last_return + 1);
}

bool has_return(std::string_view text) {
  return text.find('\r') != std::string_view::npos;
}

}  // namespace

/// `line` ends with its line feed.
void LineBuffer::append_finished(std::string_view line) {
  line.remove_suffix(1);
  const bool returns_at_end = !line.empty() && line.back() == '\r';
  ready_ += shown(line);
  ready_ += returns_at_end ? "\r\n" : "\n";
}

/// Text that has been replaced is dropped, so that an hour of progress does not pile up.
void LineBuffer::append_pending(std::string_view bytes) {
  pending_ += bytes;
  if (!has_return(bytes)) return;
  const bool at_start = pending_.back() == '\r';
  const std::string text(shown(pending_));
  pending_ = at_start ? text + '\r' : '\r' + text;
  pending_returns_ = true;
}

std::string_view LineBuffer::progress() const {
  if (!pending_returns_ || pending_.size() > kMostProgress) return {};
  return shown(pending_);
}

LineBuffer::Text LineBuffer::add(std::string_view bytes) {
  const auto last_feed = bytes.rfind('\n');
  if (last_feed == std::string_view::npos) {
    append_pending(bytes);
    return {{}, progress()};
  }

  auto finished = bytes.substr(0, last_feed + 1);
  std::string_view lines = finished;
  if (!pending_.empty() || has_return(finished)) {
    ready_.clear();
    const auto first_end = finished.find('\n') + 1;
    pending_ += finished.substr(0, first_end);
    append_finished(pending_);
    finished.remove_prefix(first_end);
    pending_.clear();
    if (!has_return(finished)) {
      ready_ += finished;
    } else {
      while (!finished.empty()) {
        const auto end = finished.find('\n') + 1;
        append_finished(finished.substr(0, end));
        finished.remove_prefix(end);
      }
    }
    lines = ready_;
  }
  pending_returns_ = false;
  append_pending(bytes.substr(last_feed + 1));
  return {lines, progress()};
}

LineBuffer::Text LineBuffer::finish() {
  if (pending_.empty()) return {};
  ready_.clear();
  pending_ += '\n';
  append_finished(pending_);
  pending_.clear();
  return {ready_, {}};
}

}  // namespace lockstep::launch
