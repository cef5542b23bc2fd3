#include "lockstep/launch/supervise/instance_signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/launch/supervise/descendants.h"

namespace lockstep::launch {

bool any_running(const std::vector<InstanceProcess>& instances) {
  return std::ranges::any_of(instances, &InstanceProcess::running);
}

void signal_groups(const std::vector<InstanceProcess>& instances, int signal) {
  for (const auto& process : instances) {
    if (process.running()) ::kill(-process.pid, signal);
  }
}

void signal_instances(const std::vector<InstanceProcess>& instances, int signal) {
  for (const auto& process : instances) {
    if (process.running()) ::kill(process.pid, signal);
  }
}

void end_orphans(const std::vector<InstanceProcess>& instances, std::set<pid_t>& told) {
  std::set<pid_t> running;
  for (const auto& process : instances) {
    if (process.running()) running.insert(process.pid);
  }
  std::vector<ProcessEntry> untold;
  for (const auto& orphan : descendants_of(::getpid(), running)) {
    if (told.insert(orphan.pid).second) untold.push_back(orphan);
  }
  signal_all(untold, SIGTERM);
  signal_all(untold, SIGCONT);
}

}  // namespace lockstep::launch
