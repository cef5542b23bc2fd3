#include "lockstep/events/event_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::events {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t milliseconds_now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

/// "2026-11-15T21:40:07.123Z"
std::string utc_time(std::int64_t milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", time.tm_year + 1900,
                     time.tm_mon + 1, time.tm_mday, time.tm_hour, time.tm_min, time.tm_sec,
                     milliseconds % 1000);
}

std::string to_line(const LogEntry& entry) {
  const auto now = milliseconds_now();
  Json json{
      {"time", utc_time(now)}, {"unix", static_cast<double>(now) / 1000}, {"event", entry.event}};
  if (entry.instance) json["instance"] = *entry.instance;
  if (entry.step) json["step"] = *entry.step;
  for (const auto& [name, value] : entry.more) {
    std::visit([&, &key = name](const auto& known) { json[key] = known; }, value);
  }
  // What a program says of itself need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::optional<LogEntry> to_entry(std::string_view line) {
  const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("event") || !json["event"].is_string()) return {};
  LogEntry entry;
  for (const auto& [name, value] : json.items()) {
    if (name == "event") {
      entry.event = value.get<std::string>();
    } else if (name == "instance" && value.is_number_integer()) {
      entry.instance = value.get<int>();
    } else if (name == "step" && value.is_number_integer()) {
      entry.step = value.get<std::int64_t>();
    } else if (value.is_number_integer()) {
      entry.more.emplace_back(name, value.get<std::int64_t>());
    } else if (value.is_number()) {
      entry.more.emplace_back(name, value.get<double>());
    } else if (value.is_string()) {
      entry.more.emplace_back(name, value.get<std::string>());
    }
  }
  return entry;
}

}  // namespace

EventLog::EventLog(const std::string& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!file_) throw io_error("event log: " + path);
}

/// One write for each line: what several processes append to a file does not mix.
void EventLog::write(const LogEntry& entry) const noexcept {
  const std::atomic_ref has_failed(has_failed_);
  if (!file_ || has_failed) return;
  try {
    const auto line = to_line(entry);
    ssize_t count = 0;
    do {
      count = ::write(file_.get(), line.data(), line.size());
    } while (count < 0 && errno == EINTR);
    if (count != static_cast<ssize_t>(line.size())) has_failed = true;
  } catch (const std::exception&) {
    has_failed = true;
  }
}

EventLog open_event_log(const std::optional<std::string>& path,
                        const std::function<void(const std::string&)>& warn) {
  if (!path) return {};
  try {
    return EventLog(*path);
  } catch (const std::exception& error) {
    if (warn) warn(error.what());
    return {};
  }
}

std::vector<LogEntry> parse_event_log(std::string_view text) {
  std::vector<LogEntry> entries;
  for (const auto line : split(text, '\n')) {
    if (auto entry = to_entry(line)) entries.push_back(std::move(*entry));
  }
  return entries;
}

std::vector<LogEntry> read_event_log(const std::string& path) {
  return parse_event_log(read_file(path));
}

}  // namespace lockstep::events
