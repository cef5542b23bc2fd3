#include "lockstep/cli/host_watcher.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/cli/monitor_watch.h"
#include "lockstep/monitor/devices/host_sampler.h"
#include "lockstep/monitor/devices/snapshot_json.h"

namespace lockstep::cli {
namespace {

void call_it(monitor::HostSnapshot& snapshot, const std::string& name) {
  snapshot.host = name;
  for (auto& device : snapshot.devices) device.host = name;
  for (auto& job : snapshot.jobs) {
    for (auto& instance : job.instances) instance.found.facts.host = name;
  }
}

std::string look(monitor::HostSampler& sampler, const launch::WatchedHost& host) {
  auto snapshot = sampler.sample_this_machine();
  keep_job(snapshot, host.job_id);
  call_it(snapshot, host.name);
  for (auto& job : snapshot.jobs) {
    std::erase_if(job.instances, [&](const monitor::WatchedInstance& instance) {
      return !instance.found.path.starts_with(host.folder + "/");
    });
  }
  return monitor::to_json(snapshot);
}

}  // namespace

struct HostWatcher::Shared {
  std::mutex mutex;
  std::condition_variable is_asked;
  std::optional<launch::WatchedHost> asked;
  std::string report;
  bool has_ended = false;
};

HostWatcher::HostWatcher(topology::Environment environment)
    : environment_(std::move(environment)) {}

HostWatcher::~HostWatcher() {
  if (!shared_) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->has_ended = true;
  shared_->is_asked.notify_one();
}

std::string HostWatcher::report(const launch::WatchedHost& host) {
  if (!shared_) {
    shared_ = std::make_shared<Shared>();
    std::thread(look_when_asked, shared_, environment_).detach();
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->asked = host;
  shared_->is_asked.notify_one();
  return std::exchange(shared_->report, {});
}

/// What cannot be told is not: that is no reason to end a job.
void HostWatcher::look_when_asked(const std::shared_ptr<Shared>& shared,
                                  const topology::Environment& environment) {
  try {
    monitor::HostSampler sampler(environment);
    std::unique_lock lock(shared->mutex);
    while (true) {
      shared->is_asked.wait(lock, [&] { return shared->has_ended || shared->asked; });
      if (shared->has_ended) return;
      const auto host = *std::exchange(shared->asked, std::nullopt);
      lock.unlock();
      auto report = look(sampler, host);
      lock.lock();
      shared->report = std::move(report);
    }
  } catch (const std::exception&) {
  }
}

}  // namespace lockstep::cli
