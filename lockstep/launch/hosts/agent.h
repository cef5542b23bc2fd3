#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/comm/tcp/secret.h"
#include "lockstep/launch/hosts/channel.h"
#include "lockstep/launch/hosts/forwarding_sink.h"
#include "lockstep/launch/hosts/route_check.h"
#include "lockstep/launch/start/instance_environment.h"
#include "lockstep/launch/start/reserved_port.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/launch/supervise/overseer.h"
#include "lockstep/launch/supervise/signals.h"
#include "lockstep/topology/machine.h"

namespace lockstep::launch {

/// What an agent tells the launcher of its host, for those who watch the job there: a text that
/// agent and launcher only pass on, from whoever knows how to look. Empty: nothing.
struct WatchedHost {
  std::string name;    ///< that the job calls it by
  std::string job_id;  ///< of the job
  std::string folder;  ///< that the job's instances have here
};
using HostReporter = std::function<std::string(const WatchedHost&)>;

/// What a job has on one of its several hosts: it says what the host is, prepares it, and runs the
/// supervisor there, one attempt of the job after another, as the launcher tells it over a channel.
///
/// When the channel ends, or nothing has come over it for the job's stall timeout, the launcher or
/// the way to it is gone: everything of the job on this host is killed, and the agent ends.
class Agent final : public Overseer {
 public:
  /// `folder` is not made yet; `warden` is a pidfd, see `run_under_warden`.
  Agent(Channel channel, topology::Environment environment, RunDirectory& folder, Signals& signals,
        int warden, HostReporter reporter);
  ~Agent() override;

  /// Returns an exit code when the launcher needs the agent no more, or is gone.
  int run();

  std::vector<pollfd> descriptors() const override;
  std::optional<Clock::time_point> next_time() const override;
  void attend(Supervisor& supervisor) override;
  void note_signal(int signal) override;
  void note_warden_gone() override;

 private:
  /// What `prepare` makes of this host.
  struct Prepared;

  void say_hello();
  void wait_while_idle();
  void handle(const Message& message, Supervisor* supervisor);
  void command(const Message& message, Supervisor& supervisor);
  void prepare(const Message& message);
  Message look_around(const Message& message);
  void check_routes(const Message& message);
  void report_routes();
  void run_attempt(const Message& message);
  void ping_if_due();
  void report_host();
  void forward_log();
  bool is_launcher_gone() const;

  Channel channel_;
  topology::Environment environment_;
  RunDirectory& folder_;
  Signals& signals_;
  int warden_;
  HostReporter reporter_;
  std::unique_ptr<Prepared> prepared_;
  std::optional<RouteCheck> routes_;
  bool routes_are_reported_ = false;
  bool is_done_ = false;
  bool is_warden_gone_ = false;
  events::Seconds patience_{60};
  Clock::time_point next_ping_;
};

}  // namespace lockstep::launch
