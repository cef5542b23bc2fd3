#include "lockstep/events/job_summary.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::events {
namespace {

/// A value of an entry; nothing where there is none of this kind.
template <typename Value>
std::optional<Value> find(const LogEntry& entry, std::string_view name) {
  const auto found =
      std::ranges::find(entry.more, name, [](const auto& pair) { return pair.first; });
  if (found == entry.more.end()) return std::nullopt;
  const auto* value = std::get_if<Value>(&found->second);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

double number_in(const LogEntry& entry, std::string_view name) {
  const auto whole = find<std::int64_t>(entry, name).value_or(0);
  return find<double>(entry, name).value_or(static_cast<double>(whole));
}

std::string who_in(const LogEntry& failure) {
  if (failure.event == "host") return "host " + find<std::string>(failure, "host").value_or("?");
  return fmt::format("instance {}", failure.instance.value_or(0));
}

std::string cause_in(const LogEntry& failure) {
  if (failure.event == "host") return "lost";
  if (const double stopped = number_in(failure, "stopped"); stopped > 0) {
    return fmt::format("stopped for {:.3g} s", stopped);
  }
  if (const auto signal = find<std::string>(failure, "signal")) return "killed by " + *signal;
  return fmt::format("exit code {}", find<std::int64_t>(failure, "exit_code").value_or(0));
}

JobSummary::Restart describe(const LogEntry& failure) {
  return {who_in(failure), cause_in(failure), failure.step};
}

/// Reads one entry after another.
class Account {
 public:
  void add(const LogEntry& entry) {
    const bool is_lost_host =
        entry.event == "host" && find<std::string>(entry, "kind") == "lost" && !failure_;
    if (entry.event == "failure" || is_lost_host) failure_ = entry;
    if (entry.event == "restart") add_restart();
    if (entry.event == "chaos") ++summary_.faults;
    if (entry.event == "stall") add_stall(entry);
    if (entry.event == "checkpoint") add_checkpoint(entry);
    if (entry.event == "interrupted") summary_.interrupted = find<std::string>(entry, "signal");
    if (entry.event == "end") add_end(entry);
  }

  JobSummary take() {
    if (failure_) summary_.failure = describe(*failure_);
    return std::move(summary_);
  }

 private:
  void add_restart() {
    stalled_now_.clear();
    if (!failure_) return;
    summary_.restarts.push_back(describe(*failure_));
    failure_.reset();
  }

  void add_end(const LogEntry& entry) {
    summary_.run_time = Seconds(number_in(entry, "seconds"));
    if (const auto code = find<std::int64_t>(entry, "exit_code")) {
      summary_.exit_code = static_cast<int>(*code);
    }
  }

  void add_stall(const LogEntry& entry) {
    const int instance = entry.instance.value_or(0);
    const bool is_known = !stalled_now_.insert(instance).second;
    if (is_known && find<std::string>(entry, "kind") != "late") return;
    ++summary_.stalls;
    summary_.stalled.insert(instance);
  }

  void add_checkpoint(const LogEntry& entry) {
    if (find<std::string>(entry, "error")) {
      ++summary_.failed_checkpoints;
      return;
    }
    ++summary_.checkpoints;
    summary_.last_checkpoint = entry.step;
  }

  JobSummary summary_;
  std::optional<LogEntry> failure_;
  std::set<int> stalled_now_;  ///< in this attempt
};

}  // namespace

JobSummary summarize(std::span<const LogEntry> log) {
  Account account;
  for (const auto& entry : log) account.add(entry);
  return account.take();
}

}  // namespace lockstep::events
