#pragma once

#include <cstdint>
#include <ctime>
#include <string_view>

namespace lockstep::events {

/// What a thread of an instance spends its time on.
enum class SpanKind : std::uint8_t { Load, Forward, Backward, Reduce, Update, Wait };
inline constexpr int kSpanKinds = 6;

/// "load", "forward", …
constexpr std::string_view name_of(SpanKind kind) noexcept {
  constexpr std::string_view kNames[kSpanKinds] = {"load",   "forward", "backward",
                                                   "reduce", "update",  "wait"};
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
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void on(const Span& span) noexcept = 0;
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

}  // namespace lockstep::events
