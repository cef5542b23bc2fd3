#pragma once

#include <nlohmann/json_fwd.hpp>
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/tcp/listener.h"
#include "lockstep/comm/tcp/secret.h"
#include "lockstep/launch/engine/engine.h"
#include "lockstep/launch/hosts/channel.h"
#include "lockstep/launch/hosts/engine_process.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/machine.h"

namespace lockstep::launch {

/// What an agent says of itself and its host when it comes.
struct AgentHello {
  std::string version;
  std::string commit;
  std::string build;
  std::string name;
  std::string address;  ///< that the launcher has reached it at; empty where that is not known
  int rank = -1;        ///< among those that one engine has started
  topology::Machine machine;
};

/// The launcher's side of one host.
struct HostLink {
  enum class State {
    Absent,    ///< no agent was started, or it was given up
    Starting,  ///< an agent was started, and has not said anything
    Ready,     ///< it has said hello
    Gone,      ///< it will not come, or has gone
  };

  std::string name;
  std::string address;  ///< of the interface that the job uses there
  State state = State::Absent;
  std::optional<Channel> channel;
  std::optional<AgentHello> hello;
  std::string problem;                  ///< why it is gone
  std::vector<std::string> last_lines;  ///< of what had started it
  /// By how much its clock is ahead of this one, and how long the question took.
  std::optional<double> clock_ahead;
  double round_trip = 0;
};

/// The agents of a job: has an engine start them, knows who is there, and carries messages to and
/// from them. One thread; nothing blocks.
class AgentPool {
 public:
  using Clock = std::chrono::steady_clock;

  /// How long an agent may take to say hello.
  static constexpr std::chrono::seconds kTimeToAppear{60};

  /// A host and a message from its agent. A struct would need the definition of Message here.
  using Arrival = std::pair<int, Message>;

  AgentPool(const Engine& engine, const std::vector<std::string>& hosts,
            const comm::tcp::Secret& secret, topology::Environment environment,
            const sigset_t& signal_mask);

  /// Starts agents on these hosts; they appear, or do not. Throws where the engine's program is not
  /// here.
  void start(const std::vector<int>& hosts);

  std::vector<pollfd> descriptors() const;
  Clock::time_point next_time() const;
  /// Reads and does all that is due. Returns what agents have said.
  std::vector<Arrival> attend();

  void send(int host, const Message& message);
  void send_to_all(const Message& message);

  HostLink& link(int host) { return links_[static_cast<std::size_t>(host)]; }
  const HostLink& link(int host) const { return links_[static_cast<std::size_t>(host)]; }
  int size() const noexcept { return static_cast<int>(links_.size()); }
  bool is_ready(int host) const { return link(host).state == HostLink::State::Ready; }
  /// For how long nothing has come from a host.
  Clock::duration silence(int host) const;

  /// Ends what had started this host's agent: it is lost. The agent, where it lives, sees that its
  /// channel has ended.
  void give_up(int host);

  /// What a host's agent says cannot be read, or it is gone.
  void fail(int host, std::string problem);

  /// What has started an agent ends when the agent has; then it has so long.
  static constexpr std::chrono::milliseconds kTimeToQuit{5000};
  /// Has all agents quit and waits for what had started them, for a moment; then kills it.
  void shut_down(std::chrono::milliseconds patience = kTimeToQuit);

  /// The process that `deaths` tells of was one of the engine's.
  DeathWatch& deaths() noexcept { return deaths_; }

 private:
  void listen();
  void stop_listening_if_done();
  void note_deaths();
  void adopt(std::list<Channel>::iterator stranger, const Message& hello);
  int host_of(const AgentHello& hello) const;
  void note_hello(int host, const Message& message);
  void note_pong(int host, const Message& message);
  void note_ends();
  EngineProcess* process_of(int host);

  const Engine& engine_;
  comm::tcp::Secret secret_;
  topology::Environment environment_;
  sigset_t signal_mask_;
  std::vector<HostLink> links_;
  /// Of each host, by its name. Resolving blocks: once, before anybody is waited for.
  std::vector<std::vector<std::string>> addresses_;
  DeathWatch deaths_;
  std::list<EngineProcess> processes_;
  std::list<comm::tcp::Listener> listeners_;
  std::string listener_addresses_;
  std::list<Channel> strangers_;  ///< who know the secret, and have not said who they are
  std::vector<Clock::time_point> started_;
  Clock::time_point next_ping_;
};

}  // namespace lockstep::launch
