#pragma once

#include "lockstep/events/status_sink.h"
#include "lockstep/events/trace_events.h"

namespace lockstep::events {

/// Who looks on while an instance trains; nobody, where a pointer is null. They outlive whatever
/// they are handed to.
struct Watchers {
  StatusSink* status = nullptr;
  SpanTracks* spans = nullptr;

  /// A sink for the thread that is called so; null where nobody records.
  SpanSink* track(std::string_view name) const {
    return spans == nullptr ? nullptr : &spans->track(name);
  }
  void enter(Phase phase) const noexcept {
    if (status != nullptr) status->enter(phase);
  }
};

}  // namespace lockstep::events
