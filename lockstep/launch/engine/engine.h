#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/topology/environment.h"

namespace lockstep::launch {

/// Who starts the agents of a job on its hosts.
enum class EngineKind { Auto, Local, Mpirun, Srun, Ssh };

/// "auto", "local", "mpirun", "srun", "ssh".
std::string_view name_of(EngineKind kind) noexcept;

/// A process of the launcher's machine that makes agents run.
struct EngineCommand {
  std::vector<std::string> arguments;
  std::vector<int> hosts;  ///< whose agents it starts
  /// Its standard input and output are the agent's; else the agents connect to the launcher.
  bool carries_channel = true;
  /// It is the agent itself, on this machine: nobody has reached it over a connection.
  bool is_agent = false;
};

/// What an engine has to know of a job.
struct EngineOptions {
  std::vector<std::string> hosts;    ///< by name
  std::vector<bool> is_this_host{};  ///< which of them this machine is
  std::string lockstep;              ///< the path of this program, which is the same on every host
  bool is_root = false;
  std::chrono::duration<double> stall_timeout{60};  ///< for which a host may be silent; 0: for ever
  bool mpi_ssh_is_set = false;                      ///< the environment tells mpirun how to use ssh
  std::vector<std::string> mpi_global_args{};
  std::vector<std::string> mpi_local_args{};
};

/// Starts agents: an engine knows the command lines, and nothing of what becomes of them.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual EngineKind kind() const noexcept = 0;
  /// What to run so that each of these hosts has an agent. An engine that can only start all at
  /// once is asked for all.
  virtual std::vector<EngineCommand> commands(const std::vector<int>& hosts) const = 0;
  virtual bool starts_all_at_once() const noexcept = 0;
};

/// The variables that an agent which connects to the launcher is told by: where the launcher is,
/// and the job's secret. No command line ever holds the second.
inline constexpr const char* kAgentLauncher = "LOCKSTEP_AGENT_LAUNCHER";
inline constexpr const char* kAgentSecret = "LOCKSTEP_AGENT_SECRET";

std::unique_ptr<Engine> make_engine(EngineKind kind, EngineOptions options);

/// Decides `Auto`: this machine alone needs no engine, an allocation of Slurm's has srun, and else
/// there is mpirun, or ssh.
EngineKind choose_engine(EngineKind wanted, bool all_are_this_host,
                         const topology::Environment& environment);

/// Words as a shell reads them: quotes and backslashes hold white space. Throws `Options`, naming
/// `option`, where a quote is open.
std::vector<std::string> split_words(std::string_view text, const std::string& option);

/// A word as a shell would have to be given it.
std::string quote_word(const std::string& word);

}  // namespace lockstep::launch
