#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/topology/job_shape.h"

namespace lockstep::topology {

class Environment;

/// The variable with the command line that started the job.
inline constexpr const char* kCommandVariable = "LOCKSTEP_COMMAND";

/// Who started this process, and so whose variables say who it is.
enum class LaunchedBy { Nobody, Lockstep, Torchrun, OpenMpi, Slurm };

/// What carries collectives between instances: those of one host share memory, whatever carries
/// them between hosts.
enum class TransportKind { Auto, Local, Shm, Tcp, Mpi };

/// "auto", "local", "shm", "tcp", "mpi"; nothing for other names.
LOCKSTEP_API std::optional<TransportKind> parse_transport(std::string_view name);
LOCKSTEP_API std::string_view name_of(TransportKind transport) noexcept;

/// One of several hosts that a job runs on, as its instances know it.
struct JobHost {
  std::string name;
  std::string address;  ///< in numbers; of the interface that the job uses
  int port = 0;         ///< where its first instance takes connections from other hosts; 0: nowhere
  int num_instances = 1;  ///< which are neighbours; the first one is the host's leader

  bool operator==(const JobHost&) const = default;
};

/// Who a process is within its job. The defaults are those of a process that is alone.
struct Identity {
  LaunchedBy launched_by = LaunchedBy::Nobody;
  std::string job_id;
  std::string run_dir;
  /// What sets this start of the job apart from all others on this host; empty where nothing does.
  std::string session;
  int instance = 0;
  int num_instances = 1;
  int local_instance = 0;
  int num_local_instances = 1;
  int num_replicas = 1;
  ReplicaRange local_replicas{0, 1};
  int devices_per_replica = 1;
  std::vector<int> device_ids{0};
  std::optional<int> threads_per_device;
  int restart_count = 0;
  std::optional<std::string> cache_path;
  /// A descriptor of memory that outlives this process (`comm::host::KeptMemory`); where the
  /// launcher keeps none, nothing.
  std::optional<int> kept_memory;
  /// What happens to the job is written down there, a line of JSON for each event; or nothing.
  std::optional<std::string> events_file;
  /// The command line of lockstep's launcher, without the values of `--env`. Reports show it.
  std::optional<std::string> command;
  std::chrono::duration<double> stall_timeout{60};
  TransportKind transport = TransportKind::Auto;
  /// In the order of their instances, and which of them this one is on. Empty where the job is on
  /// one host, or the launcher is another one, which does not say.
  std::vector<JobHost> hosts;
  int host = 0;
  /// A socket that listens at the host's address and port: the leader inherits it.
  std::optional<int> listener;

  bool operator==(const Identity&) const = default;
};

/// Where the processes of a job that is not lockstep's own meet (torch.distributed's `env://`).
struct Rendezvous {
  std::string address;
  int port = 0;
};

/// Writes the contract: lockstep's variables and torchrun's.
LOCKSTEP_API void write_identity(Environment& environment, const Identity& identity,
                                 const Rendezvous& rendezvous);

/// Reads it back. The first of lockstep's, torchrun's, Open MPI's and Slurm's variables that are
/// set decide; with none of them the process is alone.
///
/// Throws `Options`, naming variable and value, where one is missing, malformed or contradicts
/// another.
LOCKSTEP_API Identity read_identity(const Environment& environment);

}  // namespace lockstep::topology
