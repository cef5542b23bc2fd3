#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/hosts/agent_pool.h"
#include "lockstep/launch/hosts/hosts_job.h"
#include "lockstep/topology/identity.h"

namespace lockstep::launch {

/// By how much clocks may differ before it is worth a word.
inline constexpr double kClockTolerance = 1;

/// What is known of one host before anything is started there. A problem is empty where there is
/// none.
struct HostReport {
  std::string name;
  std::string address;
  std::string reach_problem;
  std::string build_problem;    ///< another version, commit or build of lockstep
  std::string program_problem;  ///< it, or the working folder
  std::string agent_problem;    ///< whatever else kept the agent from its work
  std::optional<double> clock_ahead;
  std::vector<std::string> route_problems;

  bool is_good() const;
  bool has_clock_skew() const;
};

/// Prepares agents for a job and finds out whether each host is fit for it, all at once: it is
/// handed what agents say, and tells them what to do next.
class HostCheck {
 public:
  using Clock = std::chrono::steady_clock;

  HostCheck(AgentPool& pool, const HostsJob& job);

  /// Agents of these hosts have been started; the others are prepared already.
  void begin(const std::vector<int>& hosts);
  /// Throws what nlohmann::json does, or `std::out_of_range`, where it cannot be read.
  void note(int host, const Message& message);
  /// Goes on where all have answered, or have had their time.
  void advance();

  bool is_done() const noexcept { return phase_ == Phase::Done; }
  bool all_are_good() const;
  std::vector<HostReport> reports() const;

  /// The hosts as instances are told of them; ports of those that are prepared.
  std::vector<topology::JobHost> hosts() const;
  int master_port() const { return facts_.front().master_port; }

 private:
  enum class Phase { Appearing, Preparing, Connecting, Done };

  struct Facts {
    bool is_prepared = false;
    bool awaits_answer = false;
    std::string build_problem;
    std::string program_problem;
    std::string agent_problem;
    std::vector<std::string> route_problems;
    int port = 0;
    int master_port = 0;
  };

  Facts& facts(int host) { return facts_[static_cast<std::size_t>(host)]; }
  bool is_waiting() const;
  void compare_builds(int host);
  void choose_addresses();
  void prepare(int host);
  void begin_preparing();
  void begin_connecting();

  AgentPool& pool_;
  const HostsJob& job_;
  std::vector<Facts> facts_;
  Phase phase_ = Phase::Done;
  Clock::time_point deadline_;
};

}  // namespace lockstep::launch
