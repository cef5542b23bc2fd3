#pragma once

#include <cstdint>
#include <ctime>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::events {

/// What a thread of an instance spends its time on. A launch is what a GPU computes at once: passes
/// forward and backward, and where the weights stay there, also reduction and update, step by step.
enum class SpanKind : std::uint8_t { Load, Forward, Backward, Reduce, Update, Wait, Launch };
inline constexpr int kSpanKinds = 7;

/// "load", "forward", …
constexpr std::string_view name_of(SpanKind kind) noexcept {
  constexpr std::string_view kNames[kSpanKinds] = {"load",   "forward", "backward", "reduce",
                                                   "update", "wait",    "launch"};
  return kNames[static_cast<int>(kind)];
}

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a host share.
inline std::int64_t monotonic_nanoseconds() noexcept {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Something that a thread did. Spans of one thread lie within each other or follow each other.
struct Span {
  SpanKind kind = SpanKind::Wait;
  std::int64_t begin = 0;  ///< `monotonic_nanoseconds()`
  std::int64_t end = 0;
  std::int64_t step = 0;  ///< the optimizer step that it is part of
};

/// Is told what one thread does, by that thread alone.
class LOCKSTEP_API SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void on(const Span& span) noexcept = 0;
};

/// Gives each thread that is to be recorded a sink of its own. Any thread may ask.
class LOCKSTEP_API SpanTracks {
 public:
  virtual ~SpanTracks() = default;
  /// The name, as "device 0", is shown beside what the thread did. The sink lives as long as this.
  /// Errors: `Options` for more threads than there is room for.
  virtual SpanSink& track(std::string_view name) = 0;
};

/// Tells a sink how long a scope took. Without a sink it costs a comparison.
class TimedScope {
 public:
  TimedScope(SpanSink* sink, SpanKind kind, std::int64_t step) noexcept
      : sink_(sink), span_{.kind = kind, .step = step} {
    if (sink_ != nullptr) span_.begin = monotonic_nanoseconds();
  }
  TimedScope(const TimedScope&) = delete;
  TimedScope& operator=(const TimedScope&) = delete;
  ~TimedScope() {
    if (sink_ == nullptr) return;
    span_.end = monotonic_nanoseconds();
    sink_->on(span_);
  }

 private:
  SpanSink* sink_;
  Span span_;
};

/// The same for a wait, but for those that are over at once, of which there are many.
class TimedWait {
 public:
  TimedWait(SpanSink* sink, std::int64_t step) noexcept : sink_(sink), step_(step) {
    if (sink_ != nullptr) begin_ = monotonic_nanoseconds();
  }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;
  ~TimedWait() {
    if (sink_ == nullptr) return;
    const auto end = monotonic_nanoseconds();
    if (end - begin_ < kShortest) return;
    sink_->on({.kind = SpanKind::Wait, .begin = begin_, .end = end, .step = step_});
  }

 private:
  static constexpr std::int64_t kShortest = 5'000;  // nanoseconds

  SpanSink* sink_;
  std::int64_t step_;
  std::int64_t begin_ = 0;
};

}  // namespace lockstep::events
