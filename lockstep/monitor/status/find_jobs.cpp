#include "lockstep/monitor/status/find_jobs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/base/strings.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/monitor/status/job_folder.h"
#include "lockstep/monitor/status/read_page.h"
#include "lockstep/monitor/status/status_page.h"

namespace lockstep::monitor {
namespace {

namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Where other users' jobs may be. Only root can look into most of these.
std::vector<std::string> parents_of_others() {
  constexpr std::string_view kBegin = "lockstep-";
  std::vector<std::string> parents;
  for (const auto& user : names_in("/run/user")) {
    parents.push_back("/run/user/" + user + "/lockstep");
  }
  for (const auto& name : names_in("/tmp")) {
    const bool is_parent =
        name.starts_with(kBegin) && is_number(std::string_view(name).substr(kBegin.size()));
    if (is_parent) parents.push_back("/tmp/" + name);
  }
  return parents;
}

/// The number in "status-3"; nothing for other files.
std::optional<int> instance_of(const std::string& name) {
  constexpr std::string_view kBegin = "status-";
  if (!name.starts_with(kBegin)) return std::nullopt;
  const auto number = parse_integer(std::string_view(name).substr(kBegin.size()));
  if (!number || *number < 0 || *number > 1'000'000) return std::nullopt;
  return static_cast<int>(*number);
}

Health health_of(const InstanceFacts& facts) {
  const auto counters = process_counters(facts.process);
  if (!counters || counters->start_ticks != facts.start_ticks) return Health::Ended;
  return counters->is_stopped() ? Health::Stopped : Health::Running;
}

FoundInstance read_instance(const UniqueFd& folder, const std::string& folder_path,
                            const std::string& name, int instance) {
  FoundInstance found{.path = folder_path + "/" + name, .facts = {.instance = instance}};
  try {
    const auto file = open_in_folder(folder, name);
    if (!file) throw BadPage("not a file of the job's own that can be read");
    auto content = read_page(file.get());
    if (content.facts.instance != instance) throw BadPage("damaged: of another instance");
    found.facts = std::move(content.facts);
    found.state = std::move(content.state);
    found.health = health_of(found.facts);
  } catch (const BadPage& error) {
    found.health = Health::Damaged;
    found.problem = error.what();
  }
  return found;
}

std::vector<FoundInstance> instances_in(const UniqueFd& folder, const std::string& path) {
  std::vector<FoundInstance> instances;
  for (const auto& name : names_in(path)) {
    if (const auto instance = instance_of(name)) {
      instances.push_back(read_instance(folder, path, name, *instance));
    }
  }
  return instances;
}

/// Without those of attempts that are over: they were started again, or given up.
void forget_earlier_attempts(std::vector<FoundInstance>& instances) {
  int latest = 0;
  for (const auto& found : instances) latest = std::max(latest, found.facts.restart_count);
  std::erase_if(instances, [&](const FoundInstance& found) {
    return found.health == Health::Ended && found.facts.restart_count < latest;
  });
}

/// The job's own name where its pages tell one: where torchrun or an agent has started them, that
/// is not the folder's.
std::string name_of_job(const std::vector<FoundInstance>& instances, const std::string& folder) {
  for (const auto& found : instances) {
    if (!found.facts.job.empty()) return found.facts.job;
  }
  return printable(folder);
}

/// By user too: what other launchers call their jobs need not be unique.
using JobKey = std::pair<std::string, std::string>;

void add_job(std::map<JobKey, FoundJob>& jobs, const std::string& path) {
  const auto folder = open_job_folder(path);
  struct stat info {};
  if (!folder || ::fstat(folder.get(), &info) != 0) return;  // another user's, or gone
  const auto user = user_name(info.st_uid);
  auto instances = instances_in(folder, path);
  // The page only claims to know.
  for (auto& found : instances) found.facts.user = user;
  const auto id = name_of_job(instances, fs::path(path).filename().string());
  auto& job = jobs[{id, user}];
  job.id = id;
  job.user = user;
  // Agents have folders of their own; the launcher's, which has the job's log, is called as the
  // job.
  if (job.folder.empty() || fs::path(path).filename() == id) job.folder = path;
  std::ranges::move(instances, std::back_inserter(job.instances));
}

/// Nobody would lock a folder of another user's, so whether that is abandoned shows in its pages.
bool is_left_by_another_user(const FoundJob& job) {
  struct stat info {};
  if (::stat(job.folder.c_str(), &info) != 0 || info.st_uid == ::getuid()) return false;
  return std::ranges::all_of(
      job.instances, [](const FoundInstance& found) { return found.health == Health::Ended; });
}

}  // namespace

std::string_view name_of(Health health) noexcept {
  switch (health) {
    case Health::Running:
      return "running";
    case Health::Stopped:
      return "stopped";
    case Health::Ended:
      return "ended";
    case Health::Damaged:
      return "damaged";
    case Health::Silent:
      return "silent";
  }
  return "unknown";
}

std::vector<FoundJob> find_jobs_in(const std::vector<std::string>& own,
                                   const std::vector<std::string>& of_others) {
  std::map<JobKey, FoundJob> jobs;
  std::set<std::pair<dev_t, ino_t>> seen;
  const auto look_into = [&](const std::string& parent, const auto& is_gone) {
    struct stat info {};
    if (::stat(parent.c_str(), &info) != 0) return;
    if (!seen.insert({info.st_dev, info.st_ino}).second) return;
    for (const auto& name : names_in(parent)) {
      const auto path = parent + "/" + name;
      if (!is_gone(path)) add_job(jobs, path);
    }
  };
  for (const auto& parent : own) look_into(parent, launch::remove_if_abandoned);
  for (const auto& parent : of_others) look_into(parent, [](const std::string&) { return false; });
  std::vector<FoundJob> found;
  for (auto& [key, job] : jobs) {
    forget_earlier_attempts(job.instances);
    std::ranges::stable_sort(job.instances, {},
                             [](const FoundInstance& each) { return each.facts.instance; });
    if (!is_left_by_another_user(job)) found.push_back(std::move(job));
  }
  return found;
}

std::vector<FoundJob> find_jobs(const topology::Environment& environment) {
  return find_jobs_in(launch::run_directory_parents(environment), parents_of_others());
}

}  // namespace lockstep::monitor
