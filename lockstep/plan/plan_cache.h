#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/plan/plan.h"
#include "lockstep/plan/plan_lock.h"

namespace lockstep::plan {

/// What a plan depends on, by name: model, shapes, options, topology, library version, machine. Two
/// plans with the same facts are the same plan.
struct LOCKSTEP_PRIVATE_API PlanKey {
  std::vector<std::pair<std::string, std::string>> facts;

  /// 16 hexadecimal digits.
  std::string digest() const;
};

/// Keeps plans in a folder, one file each. Any number of processes may use it at the same time: of
/// those that want the same plan one makes it and the others wait for it. Who dies making one is
/// replaced by one that waits.
///
/// A file that is damaged, or was written for something else, is ignored with a word and written
/// anew. Above the limit the files that were used longest ago are removed. A folder that cannot be
/// used costs the time to make the plan, never the run: that is said, too.
///
/// Any number of threads may call its members at the same time; `tell` and `heartbeat` are then
/// called from each of them.
class LOCKSTEP_PRIVATE_API PlanCache {
 public:
  struct Settings {
    std::int64_t most_bytes = std::int64_t{64} << 20;
    /// How long to wait for somebody else's plan before making one.
    std::chrono::duration<double> deadline{60};
    std::function<void(const std::string&)> tell = [](const std::string&) {};
    /// Why a plan that was found is not the one: then it is made anew. Empty: it is.
    std::function<std::string(const Plan&)> complaint = [](const Plan&) { return std::string(); };
    /// Called about twenty times a second while it waits. What it throws ends the wait.
    std::function<void()> heartbeat = [] {};
  };
  struct Found {
    Plan plan;
    bool is_cached = false;  ///< it was there, or somebody else made it meanwhile
    bool is_kept = false;    ///< it is there now
  };

  /// Plans are in `folder`/plans, which is made when the first one is kept.
  PlanCache(std::filesystem::path folder, Settings settings);

  /// The plan for this key; `make` makes it where there is none. Throws what `make` throws.
  Found get(const PlanKey& key, const std::function<Plan()>& make) const;

  std::filesystem::path path_of(const PlanKey& key) const;

 private:
  /// Waits until the plan is ours to make, or for too long.
  PlanLock::Holder wait_for(PlanLock& lock) const;
  bool keep(const PlanKey& key, const Plan& plan) const;

  std::filesystem::path folder_;  ///< of plans alone
  Settings settings_;
};

}  // namespace lockstep::plan
