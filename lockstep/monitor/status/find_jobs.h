#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/monitor/status/instance_status.h"
#include "lockstep/topology/environment.h"

namespace lockstep::monitor {

/// How an instance, or its page, is found.
enum class Health : std::uint8_t {
  Running,
  Stopped,  ///< by a signal
  Ended,    ///< its process is gone, and did not take the page with it
  Damaged,  ///< the page cannot be used
  Silent,   ///< nothing has been heard of its host for a while
};

/// "running", "stopped", "ended", "damaged", "silent".
std::string_view name_of(Health health) noexcept;

struct FoundInstance {
  Health health = Health::Running;
  std::string problem{};  ///< why the page cannot be used; empty where it can
  std::string path{};     ///< of the page
  /// Both have their defaults where the page is damaged, but for the number and the user.
  InstanceFacts facts{};
  InstanceState state{};
};

struct FoundJob {
  std::string id{};
  std::string user{};  ///< whom its folder belongs to
  std::string folder{};
  std::vector<FoundInstance>
      instances;  ///< on this host, by number; none where nobody says anything
};

/// The jobs of this machine that are alive, by name: those of this user, and of others where this
/// process may read what is theirs, as root may.
///
/// A job is alive as long as somebody holds its folder. What dead jobs of this user have left is
/// removed. An instance that has ended is listed while its job goes on, until the next attempt has
/// begun. Takes no lock that anybody waits for, and changes nothing that is another user's.
std::vector<FoundJob> find_jobs(const topology::Environment& environment);

/// The same for jobs whose folders lie in these: this user's, and those of others, in which nothing
/// is removed.
std::vector<FoundJob> find_jobs_in(const std::vector<std::string>& own,
                                   const std::vector<std::string>& of_others = {});

}  // namespace lockstep::monitor
