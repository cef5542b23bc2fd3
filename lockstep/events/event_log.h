#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/base/file.h"

namespace lockstep::events {

/// Something that happened to a job, as its log has it: a line of JSON.
///
///     {"time":"2026-11-15T21:40:07.123Z","unix":1794778807.123,"event":"death","instance":2,
///      "step":120,"signal":"SIGKILL"}
struct LogEntry {
  using Value = std::variant<std::int64_t, double, std::string>;

  std::string event;  ///< "start", "death", "stall", "restart", "checkpoint", …
  std::optional<int> instance{};
  std::optional<std::int64_t> step{};  ///< the last optimizer step that was complete
  std::vector<std::pair<std::string, Value>> more{};
};

/// The log of a job's events, `events.jsonl`. The launcher and the instances of a job write to the
/// same file: each line goes out whole. Any thread may call a member.
///
/// A log that cannot be written ends nothing: after the first failure it says no more.
class LOCKSTEP_PRIVATE_API EventLog {
 public:
  /// A log that nobody reads.
  EventLog() = default;
  /// Appends to a file. Errors: `Io`, naming it.
  explicit EventLog(const std::string& path);

  void write(const LogEntry& entry) const noexcept;

 private:
  UniqueFd file_;
  mutable bool has_failed_ = false;
};

/// The log at this path, for those who go on without one: where it cannot be opened, `warn` hears
/// why. Then, and without a path, it is one that nobody reads. Throws nothing of its own.
LOCKSTEP_PRIVATE_API EventLog open_event_log(const std::optional<std::string>& path,
                                             const std::function<void(const std::string&)>& warn);

/// The entries of a log. Skips lines that are not entries, such as a last line that a crash has
/// cut. The time of an entry is among its values, as "time" and "unix".
std::vector<LogEntry> parse_event_log(std::string_view text);

/// Reads and parses a log. Errors: `Io`.
std::vector<LogEntry> read_event_log(const std::string& path);

}  // namespace lockstep::events
