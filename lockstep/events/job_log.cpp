#include "lockstep/events/job_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/signal_name.h"
#include "lockstep/base/strings.h"
#include "lockstep/events/job_summary.h"

namespace lockstep::events {
namespace {

using Values = std::vector<std::pair<std::string, LogEntry::Value>>;

LogEntry::Value number(std::int64_t value) {
  return value;
}

/// What an exit code or a signal adds to an entry.
void add_status(const ExitStatus& status, Values& to) {
  if (status.signal != 0) {
    to.emplace_back("signal", signal_name(status.signal));
  } else {
    to.emplace_back("exit_code", number(status.code));
  }
}

std::string replaced(std::string path) {
  std::error_code ignored;  // what cannot be removed, or opened, the next line tells
  std::filesystem::remove(path, ignored);
  return path;
}

}  // namespace

JobLog::JobLog(std::string path, JobSink& next)
    : path_(replaced(std::move(path))), log_(path_), next_(next) {}

void JobLog::on(const InstanceStarted& event) {
  log_.write(
      {.event = "start",
       .instance = event.instance,
       .step = event.step,
       .more = {
           {"pid", number(event.pid)}, {"host", event.host}, {"attempt", number(event.attempt)}}});
  next_.on(event);
}

void JobLog::on(const InstanceOutput& event) {
  next_.on(event);
}

void JobLog::on(const InstanceEnded& event) {
  LogEntry entry{.event = "death",
                 .instance = event.instance,
                 .step = event.step,
                 .more = {{"pid", number(event.pid)}, {"seconds", event.run_time.count()}}};
  add_status(event.status, entry.more);
  log_.write(entry);
  next_.on(event);
}

void JobLog::on(const InstanceFailed& event) {
  LogEntry entry{.event = "failure", .instance = event.instance, .step = event.step};
  add_status(event.status, entry.more);
  if (event.stopped) entry.more.emplace_back("stopped", event.stopped->count());
  log_.write(entry);
  next_.on(event);
}

void JobLog::on(const InstanceStalled& event) {
  log_.write({.event = "stall",
              .instance = event.instance,
              .step = event.step,
              .more = {{"kind", "stopped"}, {"seconds", event.stopped.count()}}});
  next_.on(event);
}

void JobLog::on(const VictimsEnded& event) {
  next_.on(event);  // their deaths are written down
}

void JobLog::on(const JobRestarting& event) {
  log_.write({.event = "restart",
              .instance = event.instance,
              .step = event.step,
              .more = {{"number", number(event.restart)}}});
  next_.on(event);
}

void JobLog::on(const JobShrunk& event) {
  LogEntry entry{.event = "shrink",
                 .instance = event.instance,
                 .more = {{"instances", number(event.num_instances)}}};
  if (!event.without_cores.empty()) {
    entry.more.emplace_back("without_cores", to_ranges(event.without_cores));
  }
  log_.write(entry);
  next_.on(event);
}

void JobLog::on(const FaultInjected& event) {
  LogEntry entry{.event = "chaos",
                 .instance = event.instance,
                 .step = event.step,
                 .more = {{"kind", event.kind}, {"signal", signal_name(event.signal)}}};
  if (event.duration.count() > 0) entry.more.emplace_back("seconds", event.duration.count());
  log_.write(entry);
  next_.on(event);
}

void JobLog::on(const HostLate& event) {
  log_.write({.event = "host",
              .more = {{"kind", "late"},
                       {"host", event.host},
                       {"address", event.address},
                       {"seconds", event.silent.count()}}});
  next_.on(event);
}

void JobLog::on(const HostLost& event) {
  LogEntry entry{.event = "host",
                 .step = event.step,
                 .more = {{"kind", "lost"}, {"host", event.host}, {"address", event.address}}};
  if (event.silent) {
    entry.more.emplace_back("seconds", event.silent->count());
  } else {
    entry.more.emplace_back("why", event.why);
  }
  entry.more.emplace_back("instances", to_ranges(event.instances));
  log_.write(entry);
  next_.on(event);
}

void JobLog::on(const HostsAwaited& event) {
  log_.write(
      {.event = "host",
       .more = {{"kind", "awaited"}, {"hosts", fmt::format("{}", fmt::join(event.hosts, ","))}}});
  next_.on(event);
}

void JobLog::on(const JobInterrupted& event) {
  log_.write({.event = "interrupted", .more = {{"signal", signal_name(event.signal)}}});
  next_.on(event);
}

void JobLog::on(const LeftoversEnded& event) {
  log_.write({.event = "leftovers",
              .more = {{"processes", fmt::format("{}", fmt::join(event.processes, ", "))}}});
  next_.on(event);
}

void JobLog::on(const Warning& event) {
  next_.on(event);
}

void JobLog::on(const JobEnded& event) {
  log_.write({.event = "end",
              .step = event.step,
              .more = {{"exit_code", number(event.exit_code)},
                       {"restarts", number(event.restarts)},
                       {"seconds", event.run_time.count()}}});
  next_.on(event);
  try {
    on(summarize(read_event_log(path_)));
  } catch (const Error& error) {
    next_.on(Warning{error.what()});
  }
}

void JobLog::on(const JobSummary& summary) {
  next_.on(summary);
}

}  // namespace lockstep::events
