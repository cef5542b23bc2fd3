#include "lockstep/monitor/export/report_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <variant>

#include "lockstep/base/error.h"
#include "lockstep/base/partial_file.h"
#include "lockstep/events/event_log.h"

namespace lockstep::monitor {
namespace {

namespace fs = std::filesystem;

std::string value_text(const events::LogEntry::Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  return fmt::format("{:.4g}", std::get<double>(value));
}

double number_of(const events::LogEntry::Value& value) {
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*whole);
  }
  const auto* const number = std::get_if<double>(&value);
  return number == nullptr ? 0 : *number;
}

/// "instance 2, step 120, signal SIGKILL"
ReportEvent report_event_of(const events::LogEntry& entry) {
  ReportEvent event{.name = entry.event};
  const auto add = [&](const std::string& name, const std::string& value) {
    event.text += fmt::format("{}{} {}", event.text.empty() ? "" : ", ", name, value);
  };
  if (entry.instance) add("instance", fmt::format("{}", *entry.instance));
  if (entry.step) add("step", fmt::format("{}", *entry.step));
  for (const auto& [name, value] : entry.more) {
    if (name == "unix") {
      event.unix_s = number_of(value);
    } else if (name != "time") {
      add(name, value_text(value));
    }
  }
  return event;
}

}  // namespace

void check_report_file(const std::string& where, const std::string& path) {
  std::error_code ignored;
  const auto status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    const bool is_folder = fs::is_directory(status);
    throw Error(ErrorKind::Io,
                fmt::format("{}: expected a file that can be replaced, found {}", where,
                            is_folder ? "a folder" : "another kind of file"),
                is_folder ? (fs::path(path) / "report.html").string() : "name a regular file");
  }
  auto folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ErrorKind::Io,
                fmt::format("{}: expected '{}' to be a folder, found none", where, folder.string()),
                fmt::format("mkdir -p {}", folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw Error(ErrorKind::Io,
              fmt::format("{}: expected a folder that you may write to, found '{}': {}", where,
                          folder.string(), std::strerror(errno)),
              "name a file in another folder");
}

void write_report(const std::string& where, const std::string& path, const RunReport& report) {
  const auto page = to_html(report);
  try {
    PartialFile file(path);
    file.append(std::as_bytes(std::span(page)));
    file.publish();
  } catch (const Error& error) {
    throw Error(ErrorKind::Io, fmt::format("{}: {}", where, error.what()),
                "free some space, or name a file in another folder");
  }
}

std::vector<ReportEvent> events_of_job(const std::optional<std::string>& log_path) {
  std::vector<ReportEvent> found;
  if (!log_path) return found;
  try {
    for (const auto& entry : events::read_event_log(*log_path)) {
      found.push_back(report_event_of(entry));
    }
  } catch (const Error&) {
    return {};
  }
  return found;
}

}  // namespace lockstep::monitor
