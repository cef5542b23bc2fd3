#include "lockstep/launch/supervise/descendants.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep::launch {
namespace {

/// Reads /proc/PID/stat: "pid (name) state parent …", with the start time in field 22. The name may
/// hold spaces and brackets, so fields are counted from the last bracket.
std::optional<ProcessEntry> read_process(pid_t pid) {
  std::string text;
  try {
    text = read_file(fmt::format("/proc/{}/stat", pid));
  } catch (const Error&) {
    return std::nullopt;  // it has ended since
  }
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  const auto fields = split(std::string_view(text).substr(close + 2), ' ');
  constexpr std::size_t kState = 0;
  constexpr std::size_t kParent = 1;
  constexpr std::size_t kStartTime = 19;
  if (fields.size() <= kStartTime || fields[kState].empty()) return std::nullopt;

  ProcessEntry process;
  process.pid = pid;
  process.name = text.substr(open + 1, close - open - 1);
  process.state = fields[kState].front();
  process.parent = static_cast<pid_t>(parse_integer(fields[kParent]).value_or(0));
  process.start_time =
      static_cast<unsigned long long>(parse_integer(fields[kStartTime]).value_or(0));
  return process;
}

std::unordered_multimap<pid_t, ProcessEntry> read_all_by_parent() {
  std::unordered_multimap<pid_t, ProcessEntry> by_parent;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) throw io_error("open /proc");
  while (const auto* entry = ::readdir(folder.get())) {
    const auto pid = parse_integer(entry->d_name);
    if (!pid) continue;
    if (auto process = read_process(static_cast<pid_t>(*pid))) {
      const auto parent = process->parent;
      by_parent.emplace(parent, *std::move(process));
    }
  }
  return by_parent;
}

}  // namespace

std::vector<ProcessEntry> descendants_of(pid_t root, const std::set<pid_t>& without) {
  const auto by_parent = read_all_by_parent();
  std::vector<ProcessEntry> found;
  std::vector<pid_t> parents{root};
  while (!parents.empty()) {
    const auto [begin, end] = by_parent.equal_range(parents.back());
    parents.pop_back();
    for (auto child = begin; child != end; ++child) {
      if (without.contains(child->second.pid)) continue;
      parents.push_back(child->second.pid);
      if (child->second.state != 'Z') found.push_back(child->second);
    }
  }
  return found;
}

events::ExitStatus to_exit_status(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.signal = WTERMSIG(wait_status)};
  return {.code = WEXITSTATUS(wait_status)};
}

std::vector<ProcessEntry> kill_descendants() {
  auto processes = descendants_of(::getpid());
  signal_all(processes, SIGKILL);
  return processes;
}

void signal_all(const std::vector<ProcessEntry>& processes, int signal) {
  for (const auto& process : processes) {
    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!handle) continue;
    // The handle now holds one process fast; whether it is the one meant, its start time tells.
    const auto now = read_process(process.pid);
    if (!now || now->start_time != process.start_time) continue;
    ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0);
  }
}

}  // namespace lockstep::launch
