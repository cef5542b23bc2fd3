#include "lockstep/monitor/status/status_feed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/events/job_summary.h"

namespace lockstep::monitor {
namespace {

constexpr off_t kMostLogBytes = 256 << 10;  // read from the end of a log
constexpr const char* kEventsName = "events.jsonl";
constexpr const char* kEventsPathName = "events.path";

/// Opens a regular file of this user. Does not follow links, and does not wait for pipes.
UniqueFd open_own_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  const bool is_own =
      file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::getuid();
  return is_own ? std::move(file) : UniqueFd();
}

/// The last lines of a file; empty if there is no file.
std::string read_last_lines(const UniqueFd& file) {
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return {};
  const auto begin = std::max<off_t>(0, info.st_size - kMostLogBytes);
  std::string text(static_cast<std::size_t>(info.st_size - begin), '\0');
  const auto count = ::pread(file.get(), text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (begin > 0) text.erase(0, text.find('\n') + 1);  // the first line is incomplete
  return text;
}

UniqueFd open_log(const std::string& folder) {
  const auto elsewhere = read_last_lines(open_own_file(folder + "/" + kEventsPathName));
  return open_own_file(elsewhere.empty() ? folder + "/" + kEventsName : elsewhere);
}

std::string duration_words(events::Seconds time) {
  const double seconds = time.count();
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

JobEnd describe_end(std::span<const events::LogEntry> entries) {
  const auto summary = events::summarize(entries);
  if (!summary.exit_code)
    return {.text = "the exit code is unknown, because the event log is incomplete"};
  const auto when =
      fmt::format("after {} (exit code {})", duration_words(summary.run_time), *summary.exit_code);
  JobEnd end{.exit_code = summary.exit_code};
  if (*summary.exit_code == 0) {
    end.text = "succeeded " + when;
  } else if (summary.exit_code == exit_code(ErrorKind::Stopped)) {
    end.text = "stopped with a checkpoint " + when;
  } else if (summary.interrupted) {
    end.text = fmt::format("interrupted by {} {}", *summary.interrupted, when);
  } else if (const auto& failure = summary.failure) {
    const auto step = failure->step ? fmt::format(" after step {}", *failure->step) : "";
    end.text = fmt::format("failed {}: {}: {}{}", when, failure->who, failure->cause, step);
  } else {
    end.text = "failed " + when;
  }
  return end;
}

void leave_path_of_events(const std::string& folder, const std::string& events_file) {
  if (events_file != folder + "/" + kEventsName) {
    write_file(folder + "/" + kEventsPathName, events_file);
  }
}

StatusFeed::StatusFeed(topology::Environment environment, StatusFeedOptions options)
    : sampler_(std::move(environment)), options_(std::move(options)) {}

/// Reads the log of a running job, and a last time the log of a job that has ended: then there is
/// no folder any more, but the log is still open.
void StatusFeed::read_log(const DashboardJob& job, const std::string& folder) {
  auto& log = logs_[{job.user, job.id}];
  if (!folder.empty()) {
    // The launcher may have replaced the log of an earlier job.
    if (auto file = open_log(folder)) log.file = std::move(file);
  }
  if (!log.file) {
    if (!folder.empty()) log.entries.clear();  // those of an earlier job of the same name
    return;
  }
  log.entries = events::parse_event_log(read_last_lines(log.file));
  if (log.entries.size() > kMostEvents) {
    log.entries.erase(log.entries.begin(),
                      log.entries.end() - static_cast<std::ptrdiff_t>(kMostEvents));
  }
  if (job.end) log.file.reset();
}

std::vector<DashboardJob> StatusFeed::jobs() {
  auto snapshot = sampler_.sample();
  const auto user = user_name(::getuid());
  std::erase_if(snapshot.jobs, [&](const WatchedJob& job) {
    const bool is_another = !options_.job.empty() && job.id != options_.job;
    return is_another || (!options_.shows_others && job.user != user);
  });
  auto jobs = view_.update(snapshot);
  for (auto& job : jobs) {
    const auto watched = std::ranges::find_if(snapshot.jobs, [&](const WatchedJob& each) {
      return each.id == job.id && each.user == job.user;
    });
    read_log(job, watched == snapshot.jobs.end() ? "" : watched->folder);
    job.events = logs_[{job.user, job.id}].entries;
    if (job.end) job.end = describe_end(job.events);
  }
  std::erase_if(logs_, [&](const auto& entry) {
    return std::ranges::none_of(
        jobs, [&](const DashboardJob& job) { return entry.first == std::pair(job.user, job.id); });
  });
  return jobs;
}

}  // namespace lockstep::monitor
