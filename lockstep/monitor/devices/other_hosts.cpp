#include "lockstep/monitor/devices/other_hosts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "lockstep/launch/hosts/host_reports.h"
#include "lockstep/monitor/devices/snapshot_json.h"
#include "lockstep/monitor/status/job_folder.h"

namespace lockstep::monitor {
namespace {

constexpr off_t kLongestReport = 16 << 20;

/// A host as its agent has told of it, and how long ago.
struct HostReport {
  HostSnapshot told;
  double age_seconds = 0;
};

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<HostReport> read_report(const UniqueFd& folder, const std::string& name, double now) {
  const auto file = open_in_folder(folder, name);
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || info.st_size > kLongestReport) return {};
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  if (::pread(file.get(), text.data(), text.size(), 0) != info.st_size) return {};
  auto told = parse_snapshot(text);
  if (!told) return {};
  return HostReport{std::move(*told), std::max(0.0, now - seconds_of(info.st_mtim))};
}

/// What other users' folders tell of other machines nobody here can check.
bool is_own(const UniqueFd& folder) {
  struct stat info {};
  return ::fstat(folder.get(), &info) == 0 && info.st_uid == ::getuid();
}

const WatchedJob* find_job(const HostSnapshot& snapshot, const std::string& id) {
  const auto found = std::ranges::find(snapshot.jobs, id, &WatchedJob::id);
  return found == snapshot.jobs.end() ? nullptr : &*found;
}

bool has_instance(const WatchedJob& job, int number) {
  return std::ranges::any_of(job.instances, [&](const WatchedInstance& instance) {
    return instance.found.facts.instance == number;
  });
}

/// As this machine would have found it: by its clock, and of the user whose folder it is.
WatchedInstance as_seen_here(WatchedInstance instance, const HostReport& report,
                             const HostSnapshot& here, const std::string& user) {
  auto& found = instance.found;
  found.facts.user = user;
  if (found.state.updated_ns != 0) {
    const auto age_ns = report.told.steady_ns - found.state.updated_ns +
                        static_cast<std::int64_t>(report.age_seconds * 1e9);
    found.state.updated_ns = here.steady_ns - age_ns;
  }
  const std::chrono::duration<double> silent_after = kSilentAfter;
  if (report.age_seconds > silent_after.count() && found.health == Health::Running) {
    found.health = Health::Silent;
  }
  return instance;
}

/// A GPU, or all cores of a host together, may be told of by the agents of several jobs.
void add_device(HostSnapshot& snapshot, const Device& device) {
  const bool is_shared = device.kind != DeviceKind::Cpu || !device.id;
  const auto known = std::ranges::find_if(snapshot.devices, [&](const Device& each) {
    return each.host == device.host && each.kind == device.kind && each.id == device.id;
  });
  if (!is_shared || known == snapshot.devices.end()) {
    snapshot.devices.push_back(device);
    return;
  }
  known->stages.insert(known->stages.end(), device.stages.begin(), device.stages.end());
}

void add_host(HostSnapshot& snapshot, WatchedJob& job, const HostReport& report) {
  const auto* told = find_job(report.told, job.id);
  if (told == nullptr) return;
  bool is_this_machine = false;
  std::vector<WatchedInstance> added;
  for (const auto& instance : told->instances) {
    if (has_instance(job, instance.found.facts.instance)) {
      is_this_machine = true;
    } else {
      added.push_back(as_seen_here(instance, report, snapshot, job.user));
    }
  }
  std::ranges::move(added, std::back_inserter(job.instances));
  if (is_this_machine) return;  // it has its devices already
  for (const auto& device : report.told.devices) add_device(snapshot, device);
}

}  // namespace

void add_other_hosts(HostSnapshot& snapshot) {
  for (auto& job : snapshot.jobs) {
    const auto folder = open_job_folder(job.folder);
    if (!folder || !is_own(folder)) continue;
    for (const auto& name : names_in(job.folder)) {
      if (!launch::is_host_report_name(name)) continue;
      if (const auto report = read_report(folder, name, snapshot.unix_time)) {
        add_host(snapshot, job, *report);
      }
    }
    std::ranges::stable_sort(job.instances, {}, [](const WatchedInstance& instance) {
      return instance.found.facts.instance;
    });
  }
}

}  // namespace lockstep::monitor
