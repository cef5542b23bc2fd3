#include "lockstep/ui/job_console.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <vector>

#include "lockstep/base/signal_name.h"
#include "lockstep/base/strings.h"
#include "lockstep/ui/job_report.h"
#include "lockstep/ui/text_width.h"

namespace lockstep::ui {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(' ') == std::string_view::npos;
}

}  // namespace

JobConsole::JobConsole(const ConsoleOptions& options, int stdout_fd, int stderr_fd)
    : options_(options), out_(stdout_fd) {
  if (!lead_to_the_same(stdout_fd, stderr_fd)) separate_err_.emplace(stderr_fd);
}

OutputChannel& JobConsole::channel(events::Stream stream) {
  return stream == events::Stream::Stderr && separate_err_ ? *separate_err_ : out_;
}

std::string JobConsole::tag(int instance, events::Stream stream) const {
  switch (options_.tags) {
    case TagStyle::Never:
      return {};
    case TagStyle::Mpi:
      return fmt::format("[1,{}]<{}>:", instance,
                         stream == events::Stream::Stdout ? "stdout" : "stderr");
    case TagStyle::Auto:
      if (options_.num_instances == 1) return {};
      break;
    case TagStyle::Always:
      break;
  }
  return fmt::format("[{}] ", instance);
}

void JobConsole::on(const events::InstanceOutput& event) {
  if (options_.only_instance && *options_.only_instance != event.instance) return;
  const auto prefix = tag(event.instance, event.stream);
  if (!event.lines.empty()) {
    if (event.instance == 0 && event.stream == progress_.stream) {
      hide_progress(channel(event.stream));
      progress_.text.clear();  // the line that showed it is finished
    }
    if (prefix.empty()) {
      write_lines(channel(event.stream), event.lines);
    } else {
      scratch_.clear();
      for (auto rest = event.lines; !rest.empty();) {
        const auto end = rest.find('\n') + 1;
        scratch_ += prefix;
        scratch_ += rest.substr(0, end);
        rest.remove_prefix(end);
      }
      write_lines(channel(event.stream), scratch_);
    }
  }
  if (event.instance == 0 && !event.progress.empty()) show_progress(event);
}

void JobConsole::write_lines(OutputChannel& channel, std::string_view lines) {
  hide_progress(channel);
  channel.write(lines);
  redraw_progress();
}

void JobConsole::show_progress(const events::InstanceOutput& event) {
  auto& shown_on = channel(event.stream);
  if (is_blank(event.progress)) {  // whoever drew it has erased it, to write something else
    hide_progress(shown_on);
    progress_.text.clear();
    return;
  }
  const auto text = tag(0, event.stream) + std::string(event.progress);
  if (shown_on.is_terminal()) {
    hide_progress(shown_on);
    progress_.text = text;
    progress_.stream = event.stream;
    redraw_progress();
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!progress_.last_written) progress_.last_written = now;
  if (now - *progress_.last_written < kProgressInterval) return;
  progress_.last_written = now;
  shown_on.write(text + '\n');
}

/// Clears the bottom line of the terminal that is about to be written to.
void JobConsole::hide_progress(OutputChannel& about_to_write) {
  if (!progress_.text.empty() && about_to_write.is_terminal()) {
    channel(progress_.stream).write(kEraseLine);
  }
}

void JobConsole::redraw_progress() {
  if (progress_.text.empty()) return;
  auto& shown_on = channel(progress_.stream);
  shown_on.write(kEraseLine);
  shown_on.write(clip(progress_.text, static_cast<std::size_t>(std::max(1, shown_on.width() - 1))));
}

void JobConsole::say(const std::string& message) {
  auto& err = channel(events::Stream::Stderr);
  const bool continues_a_line = !err.at_line_start() && progress_.text.empty();
  write_lines(err, continues_a_line ? "\n" + message : message);
}

void JobConsole::on(const events::InstanceStarted& event) {
  if (options_.verbosity != Verbosity::Verbose) return;
  const auto where =
      event.cpus.empty() ? "on any CPU" : fmt::format("on CPU {}", to_ranges(event.cpus));
  say(fmt::format("lockstep: instance {} started on host {}, pid {}, {}\n", event.instance,
                  event.host, event.pid, where));
}

void JobConsole::on(const events::InstanceEnded& /*event*/) {}

void JobConsole::on(const events::InstanceFailed& event) {
  say(describe(event));
}

void JobConsole::on(const events::InstanceStalled& /*event*/) {}  // its failure tells

void JobConsole::on(const events::VictimsEnded& event) {
  say(describe(event));
}

void JobConsole::on(const events::JobRestarting& event) {
  const auto where = event.step ? fmt::format(" after step {}", *event.step) : "";
  say(fmt::format("lockstep: starting the job again{}: restart {} of {}\n", where, event.restart,
                  event.max_restarts));
}

void JobConsole::on(const events::JobShrunk& event) {
  const auto& cores = event.without_cores;
  const auto without = cores.empty() ? std::string()
                                     : fmt::format(", without core{} {}",
                                                   cores.size() == 1 ? "" : "s", to_ranges(cores));
  say(fmt::format("lockstep: instance {} failed {} times in a row: going on with {} instance{}{}\n",
                  event.instance, event.failures, event.num_instances,
                  event.num_instances == 1 ? "" : "s", without));
}

void JobConsole::on(const events::FaultInjected& event) {
  if (options_.verbosity == Verbosity::Quiet) return;
  const auto duration = event.duration.count() > 0
                            ? fmt::format(" for {:.1f} s", event.duration.count())
                            : std::string();
  say(fmt::format("lockstep: chaos: {} to instance {}{}\n", signal_name(event.signal),
                  event.instance, duration));
}

void JobConsole::on(const events::HostLate& event) {
  say(fmt::format("lockstep: warning: host {} ({}) has not answered for {:.3g} s\n", event.host,
                  event.address, event.silent.count()));
}

void JobConsole::on(const events::HostLost& event) {
  say(describe(event));
}

void JobConsole::on(const events::HostsAwaited& event) {
  const auto& hosts = event.hosts;
  say(fmt::format("lockstep: waiting for host{} {} to come back, for up to {:.3g} s\n",
                  hosts.size() == 1 ? "" : "s", fmt::join(hosts, ", "), event.patience.count()));
}

void JobConsole::on(const events::JobInterrupted& event) {
  if (options_.verbosity == Verbosity::Quiet) return;
  if (event.grace.count() > 0) {
    say(fmt::format("lockstep: {}: ending the job; what is left after {:.3g} s is killed\n",
                    signal_name(event.signal), event.grace.count()));
  } else {
    say(fmt::format("lockstep: {}: killing the job\n", signal_name(event.signal)));
  }
}

void JobConsole::on(const events::LeftoversEnded& event) {
  if (options_.verbosity == Verbosity::Quiet) return;
  say(fmt::format("lockstep: all instances have ended; ending what they left running: {}\n",
                  fmt::join(event.processes, ", ")));
}

void JobConsole::on(const events::Warning& event) {
  say(fmt::format("lockstep: warning: {}\n", event.text));
}

void JobConsole::on(const events::JobEnded& /*event*/) {}

void JobConsole::on(const events::JobSummary& summary) {
  if (options_.verbosity == Verbosity::Quiet || !summary.is_eventful()) return;
  say(describe(summary));
}

std::vector<int> JobConsole::blocked_on() const {
  std::vector<int> fds;
  if (out_.blocked()) fds.push_back(out_.fd());
  if (separate_err_ && separate_err_->blocked()) fds.push_back(separate_err_->fd());
  return fds;
}

void JobConsole::resume() {
  out_.resume();
  if (separate_err_) separate_err_->resume();
}

std::string describe(const events::ExitStatus& status) {
  return status.signal != 0 ? fmt::format("killed by {}", signal_name(status.signal))
                            : fmt::format("exit code {}", status.code);
}

std::string describe(const events::InstanceFailed& failure) {
  auto text =
      failure.stopped
          ? fmt::format(
                "lockstep: instance {} was stopped for {:.3g} s, longer than "
                "--stall-timeout, and was killed (host {}, pid {})\n",
                failure.instance, failure.stopped->count(), failure.host, failure.pid)
          : fmt::format("lockstep: instance {} failed: {}, after {:.1f} s (host {}, pid {})\n",
                        failure.instance, describe(failure.status), failure.run_time.count(),
                        failure.host, failure.pid);
  if (failure.last_error_lines.empty()) {
    text += "  it wrote nothing to stderr\n";
  } else {
    text += "  its last lines on stderr:\n";
    for (const auto& line : failure.last_error_lines) text += fmt::format("  | {}\n", line);
  }
  if (failure.status.signal == SIGKILL && !failure.stopped) {
    text += "  try: if nobody killed it, the machine ran out of memory; see dmesg\n";
  }
  return text;
}

std::string describe(const events::HostLost& event) {
  const auto why = event.silent ? fmt::format("no answer for {:.3g} s", event.silent->count())
                                : fmt::format("{}", event.why);
  auto text =
      fmt::format("lockstep: host {} ({}) is lost: {}; instance{} {} on it\n", event.host,
                  event.address, why, event.instances.size() == 1 ? "" : "s",
                  to_ranges(event.instances) + (event.instances.size() == 1 ? " was" : " were"));
  for (const auto& line : event.last_lines) text += fmt::format("  | {}\n", line);
  return text;
}

std::string describe(const events::VictimsEnded& event) {
  std::map<std::string, std::vector<int>> by_status;
  for (const auto& [instance, status] : event.victims) {
    by_status[status ? describe(*status) : "still there"].push_back(instance);
  }
  std::vector<std::string> groups;
  for (const auto& [status, instances] : by_status) {
    groups.push_back(fmt::format("{} ({})", to_ranges(instances), status));
  }
  const auto cause =
      event.lost_host.empty() ? fmt::format("instance {}", event.cause) : "host " + event.lost_host;
  return fmt::format("lockstep: ended with {}: {}\n", cause, fmt::join(groups, ", "));
}

}  // namespace lockstep::ui
