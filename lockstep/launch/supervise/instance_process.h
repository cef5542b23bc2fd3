#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/events/job_events.h"
#include "lockstep/launch/supervise/line_buffer.h"

namespace lockstep::launch {

/// The last lines of a stream, for the report of a failure. Very long ones are cut.
class Tail {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kLineBytes = 1000;

  explicit Tail(std::size_t most_lines = kLines) : most_lines_(most_lines) {}

  void add(std::string_view text);
  /// An unfinished line counts as one.
  std::vector<std::string> lines() const;

 private:
  std::size_t most_lines_;
  std::deque<std::string> lines_;
  std::string unfinished_;
};

/// One output stream of an instance, on its way from the pipe to the sink and to a file.
class OutputStream {
 public:
  enum class Mode { Lines, Raw };  ///< Raw: bytes pass untouched

  OutputStream(int instance, events::Stream stream, Mode mode, UniqueFd pipe, UniqueFd log);

  /// To be polled; -1 once the stream has ended.
  int fd() const noexcept { return pipe_.get(); }

  /// Passes on what there is, up to as much as a pipe holds, so that the streams take turns.
  /// Returns whether there may be more.
  bool forward(events::JobSink& sink);

  /// Passes on an unfinished line as it is: its writer is gone.
  void finish_line(events::JobSink& sink);

  /// Passes on a last unfinished line. No more is read.
  void finish(events::JobSink& sink);

  const Tail& tail() const noexcept { return tail_; }

 private:
  void pass_on(events::JobSink& sink, const LineBuffer::Text& text);
  void write_log(events::JobSink& sink, std::string_view bytes);

  int instance_;
  events::Stream stream_;
  Mode mode_;
  UniqueFd pipe_;
  UniqueFd log_;
  LineBuffer lines_;
  Tail tail_;
};

/// An instance that has been started.
struct InstanceProcess {
  using Clock = std::chrono::steady_clock;

  int instance = 0;
  std::string host;
  pid_t pid = 0;
  Clock::time_point started;
  Clock::time_point ended;
  std::optional<events::ExitStatus> status;        ///< once it has ended
  std::optional<Clock::time_point> stopped_since;  ///< by SIGSTOP and the like, while it is
  std::optional<events::Seconds> given_up_after;   ///< it was stopped for so long, and killed
  OutputStream standard_output;
  OutputStream standard_error;

  bool running() const noexcept { return !status.has_value(); }
  std::array<OutputStream*, 2> streams() { return {&standard_output, &standard_error}; }
};

}  // namespace lockstep::launch
