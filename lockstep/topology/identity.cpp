#include "lockstep/topology/identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/host_list.h"

namespace lockstep::topology {
namespace {

constexpr int kNoLimit = std::numeric_limits<int>::max();

struct Limits {
  int least = 0;
  int most = kNoLimit;
};

/// Takes numbers out of an environment and names the variable in every complaint.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  Error error(const std::string& name, const std::string& expected) const {
    return {ErrorKind::Options,
            fmt::format("environment: {} is '{}', expected {}", name,
                        environment_.get(name).value_or(""), expected),
            "start the program with 'lockstep run', or unset the variable"};
  }

  std::string text(const std::string& name, const std::string& needed_by) const {
    if (const auto value = environment_.get(name)) return *value;
    throw Error(ErrorKind::Options,
                fmt::format("environment: {} is not set, though {} is", name, needed_by),
                fmt::format("set {}, or unset {}", name, needed_by));
  }

  int number(const std::string& name, const std::string& needed_by, Limits limits) const {
    const auto value = parse_integer(text(name, needed_by));
    if (value && *value >= limits.least && *value <= limits.most) return static_cast<int>(*value);
    throw error(name, limits.most == kNoLimit
                          ? fmt::format("a number of at least {}", limits.least)
                          : fmt::format("a number from {} to {}", limits.least, limits.most));
  }

  int number_or(const std::string& name, int fallback, Limits limits) const {
    return environment_.has(name) ? number(name, name, limits) : fallback;
  }

  void expect(const std::string& name, int found, int expected, const std::string& because) const {
    if (found != expected) throw error(name, fmt::format("{}: {}", expected, because));
  }

 private:
  const Environment& environment_;
};

std::vector<int> read_device_ids(const Reader& read, std::size_t count) {
  const std::string name = "LOCKSTEP_DEVICE_IDS";
  const auto text = read.text(name, "LOCKSTEP_INSTANCE_INDEX");
  std::vector<int> ids;
  for (const auto part : split(text, ',')) {
    const auto id = parse_integer(part);
    if (!id || *id < 0 || *id > kNoLimit) throw read.error(name, "numbers with commas between");
    ids.push_back(static_cast<int>(*id));
  }
  if (ids.size() != count) {
    throw read.error(name, fmt::format("{} numbers, one for each stage of each replica", count));
  }
  return ids;
}

std::chrono::duration<double> read_seconds(const Reader& read, const std::string& name,
                                           const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 0) ||
      std::isinf(seconds)) {
    throw read.error(name, "a number of seconds of at least 0");
  }
  return std::chrono::duration<double>(seconds);
}

/// Local indices follow the order of the job: whoever is before or behind this instance on its host
/// is so in the job as well.
void check_local_index(const Reader& read, const std::string& name, const Identity& id) {
  const int before = id.local_instance;
  const int behind = id.num_local_instances - 1 - id.local_instance;
  if (before <= id.instance && behind <= id.num_instances - 1 - id.instance) return;
  throw read.error(name,
                   fmt::format("a place among the {} of this host that fits instance {} of {}",
                               id.num_local_instances, id.instance, id.num_instances));
}

/// The launcher writes torchrun's variables too, and removes Open MPI's. Where one of them says
/// otherwise, somebody has started this process anew within an instance, and means it to be one of
/// another job.
void check_other_families(const Reader& read, const Identity& id) {
  const auto expect = [&](const std::string& name, int expected) {
    read.expect(name, read.number_or(name, expected, {}), expected,
                "the LOCKSTEP variables say so");
  };
  expect("RANK", id.instance);
  expect("WORLD_SIZE", id.num_instances);
  expect("LOCAL_RANK", id.local_instance);
  expect("LOCAL_WORLD_SIZE", id.num_local_instances);
  expect("OMPI_COMM_WORLD_RANK", id.instance);
  expect("OMPI_COMM_WORLD_SIZE", id.num_instances);
}

/// "a,10.0.0.1,4711,2;b,10.0.0.2,4711,2": name, address, port, instances.
std::string to_text(const std::vector<JobHost>& hosts) {
  std::vector<std::string> texts;
  for (const auto& host : hosts) {
    texts.push_back(
        fmt::format("{},{},{},{}", host.name, host.address, host.port, host.num_instances));
  }
  return fmt::format("{}", fmt::join(texts, ";"));
}

JobHost read_host(const Reader& read, const std::string& name, std::string_view text) {
  const auto malformed = [&] {
    return read.error(name, "hosts such as 'a,10.0.0.1,4711,2' with semicolons between");
  };
  const auto parts = split(text, ',');
  if (parts.size() != 4 || parts[0].empty()) throw malformed();
  const auto port = parse_integer(parts[2]);
  const auto instances = parse_integer(parts[3]);
  constexpr int kLastPort = 65535;
  if (!port || *port < 0 || *port > kLastPort || !instances || *instances < 1) throw malformed();
  return {std::string(parts[0]), std::string(parts[1]), static_cast<int>(*port),
          static_cast<int>(*instances)};
}

/// Fills in the hosts of the job, which must fit what is known of this instance's place.
void read_hosts(const Environment& environment, const Reader& read, Identity& id) {
  const std::string name = "LOCKSTEP_HOSTS";
  if (environment.has("LOCKSTEP_LISTENER")) {
    id.listener = read.number("LOCKSTEP_LISTENER", name, {});
  }
  if (!environment.has(name)) return;
  const auto text = read.text(name, name);
  for (const auto part : split(text, ';')) id.hosts.push_back(read_host(read, name, part));
  id.host =
      read.number("LOCKSTEP_HOST_INDEX", name, {.most = static_cast<int>(id.hosts.size()) - 1});
  int before = 0;
  int all = 0;
  for (std::size_t i = 0; i < id.hosts.size(); ++i) {
    if (static_cast<int>(i) < id.host) before += id.hosts[i].num_instances;
    all += id.hosts[i].num_instances;
  }
  const auto& own = id.hosts[static_cast<std::size_t>(id.host)];
  if (all == id.num_instances && own.num_instances == id.num_local_instances &&
      before + id.local_instance == id.instance) {
    return;
  }
  throw read.error(name, fmt::format("hosts of {} instances in all, on which instance {} is number "
                                     "{} of the {} on host {}",
                                     id.num_instances, id.instance, id.local_instance,
                                     id.num_local_instances, id.host));
}

Identity read_lockstep(const Environment& environment) {
  const Reader read(environment);
  const std::string index_name = "LOCKSTEP_INSTANCE_INDEX";
  Identity id;
  id.launched_by = LaunchedBy::Lockstep;
  id.job_id = read.text("LOCKSTEP_JOB_ID", index_name);
  id.run_dir = read.text("LOCKSTEP_RUN_DIR", index_name);
  id.num_instances = read.number("LOCKSTEP_NUM_INSTANCES", index_name, {.least = 1});
  id.instance = read.number(index_name, "LOCKSTEP_NUM_INSTANCES", {.most = id.num_instances - 1});
  id.num_local_instances = read.number("LOCKSTEP_NUM_LOCAL_INSTANCES", index_name,
                                       {.least = 1, .most = id.num_instances});
  id.local_instance = read.number("LOCKSTEP_LOCAL_INSTANCE_INDEX", index_name,
                                  {.most = id.num_local_instances - 1});
  check_local_index(read, "LOCKSTEP_LOCAL_INSTANCE_INDEX", id);
  id.num_replicas = read.number("LOCKSTEP_NUM_REPLICAS", index_name, {.least = id.num_instances});
  id.devices_per_replica = read.number("LOCKSTEP_DEVICES_PER_REPLICA", index_name, {.least = 1});

  const auto expected =
      replicas_of(id.instance, {.replicas = id.num_replicas, .instances = id.num_instances});
  const auto because = fmt::format("instance {} of {} with {} replicas in all", id.instance,
                                   id.num_instances, id.num_replicas);
  id.local_replicas = {read.number("LOCKSTEP_REPLICA_OFFSET", index_name, {}),
                       read.number("LOCKSTEP_NUM_LOCAL_REPLICAS", index_name, {.least = 1})};
  read.expect("LOCKSTEP_REPLICA_OFFSET", id.local_replicas.first, expected.first, because);
  read.expect("LOCKSTEP_NUM_LOCAL_REPLICAS", id.local_replicas.count, expected.count, because);

  check_other_families(read, id);
  id.device_ids = read_device_ids(read, static_cast<std::size_t>(id.local_replicas.count) *
                                            static_cast<std::size_t>(id.devices_per_replica));
  id.threads_per_device = read.number("LOCKSTEP_THREADS_PER_DEVICE", index_name, {.least = 1});
  id.restart_count = read.number("LOCKSTEP_RESTART_COUNT", index_name, {});
  id.session = fmt::format("{}-{}", id.job_id, id.restart_count);
  id.cache_path = environment.get("LOCKSTEP_CACHE_PATH");
  id.events_file = environment.get("LOCKSTEP_EVENTS");
  if (environment.has("LOCKSTEP_KEPT_MEMORY")) {
    id.kept_memory = read.number("LOCKSTEP_KEPT_MEMORY", index_name, {});
  }
  read_hosts(environment, read, id);
  return id;
}

/// Where another launcher has put this process.
struct Rank {
  int rank;
  int size;
  int local_rank;
  int local_size;
};

/// One replica in each instance, as every other launcher means it.
Identity one_replica_each(LaunchedBy launcher, const Rank& rank, const Reader& read,
                          const std::string& local_name) {
  Identity id;
  id.launched_by = launcher;
  id.instance = rank.rank;
  id.num_instances = rank.size;
  id.local_instance = rank.local_rank;
  id.num_local_instances = rank.local_size;
  id.num_replicas = rank.size;
  id.local_replicas = {rank.rank, 1};
  id.device_ids = {rank.local_rank};
  check_local_index(read, local_name, id);
  return id;
}

/// The values of these variables, as far as they are set, with dots between; nothing without the
/// first.
std::string session_of(const Environment& environment, const std::vector<std::string>& names) {
  if (!environment.has(names.front())) return {};
  std::string session;
  for (const auto& name : names) session += environment.get(name).value_or("") + '.';
  return session;
}

Identity read_torchrun(const Environment& environment) {
  const Reader read(environment);
  Rank rank{};
  rank.size = read.number("WORLD_SIZE", "RANK", {.least = 1});
  rank.rank = read.number("RANK", "WORLD_SIZE", {.most = rank.size - 1});
  // Scripts that set RANK by hand often leave the local ones out: they mean one host.
  rank.local_size = read.number_or("LOCAL_WORLD_SIZE", rank.size, {.least = 1, .most = rank.size});
  rank.local_rank = read.number_or("LOCAL_RANK", rank.rank, {.most = rank.local_size - 1});
  auto id = one_replica_each(LaunchedBy::Torchrun, rank, read, "LOCAL_RANK");
  id.session = session_of(environment, {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT"});
  return id;
}

Identity read_open_mpi(const Environment& environment) {
  const Reader read(environment);
  const std::string prefix = "OMPI_COMM_WORLD_";
  Rank rank{};
  rank.size = read.number(prefix + "SIZE", prefix + "RANK", {.least = 1});
  rank.rank = read.number(prefix + "RANK", prefix + "SIZE", {.most = rank.size - 1});
  rank.local_size =
      read.number(prefix + "LOCAL_SIZE", prefix + "RANK", {.least = 1, .most = rank.size});
  rank.local_rank =
      read.number(prefix + "LOCAL_RANK", prefix + "RANK", {.most = rank.local_size - 1});
  auto id = one_replica_each(LaunchedBy::OpenMpi, rank, read, prefix + "LOCAL_RANK");
  id.session = session_of(environment, {"PMIX_NAMESPACE", "PMIX_SERVER_URI2"});
  return id;
}

/// The entry for one node of "2(x3),1": two tasks on each of three nodes, then one.
int tasks_of_node(const Reader& read, const std::string& list, int node) {
  const std::string name = "SLURM_STEP_TASKS_PER_NODE";
  const auto malformed = [&] { return read.error(name, "a list such as '2(x3),1'"); };
  for (const auto part : split(list, ',')) {
    const auto open = part.find("(x");
    const auto tasks = parse_integer(part.substr(0, open));
    std::optional<std::int64_t> nodes = 1;
    if (open != std::string_view::npos) {
      if (part.back() != ')') throw malformed();
      nodes = parse_integer(part.substr(open + 2, part.size() - open - 3));
    }
    if (!tasks || !nodes || *tasks < 1 || *nodes < 1) throw malformed();
    if (node < *nodes) return static_cast<int>(*tasks);
    node -= static_cast<int>(*nodes);
  }
  throw read.error(name, "an entry for the node of SLURM_NODEID");
}

/// The nodes of a step, as names with their tasks; none where there is but one. Where tasks were
/// dealt out one by one, those of a node are no neighbours, and nothing says where they are.
void read_slurm_nodes(const Environment& environment, const Reader& read, int node, Identity& id) {
  const std::string name = "SLURM_STEP_NODELIST";
  if (id.num_local_instances == id.num_instances || !environment.has(name)) return;
  int before = 0;
  for (const auto& host : parse_host_list(*environment.get(name))) {
    const auto index = static_cast<int>(id.hosts.size());
    const int tasks = tasks_of_node(read, *environment.get("SLURM_STEP_TASKS_PER_NODE"), index);
    id.hosts.push_back({.name = host.name, .address = {}, .port = 0, .num_instances = tasks});
    if (index < node) before += tasks;
  }
  id.host = node;
  if (before + id.local_instance == id.instance) return;
  throw Error(ErrorKind::Options,
              fmt::format("environment: task {} is number {} of node {}, where the nodes before it "
                          "have {} tasks: expected the tasks of a node to be neighbours",
                          id.instance, id.local_instance, node, before),
              "srun --distribution=block");
}

Identity read_slurm(const Environment& environment) {
  const Reader read(environment);
  const std::string rank_name = "SLURM_PROCID";
  Rank rank{};
  rank.size = read.number("SLURM_STEP_NUM_TASKS", rank_name, {.least = 1});
  rank.rank = read.number(rank_name, "SLURM_STEP_NUM_TASKS", {.most = rank.size - 1});
  const int node = read.number("SLURM_NODEID", rank_name, {});
  rank.local_size = tasks_of_node(read, read.text("SLURM_STEP_TASKS_PER_NODE", rank_name), node);
  rank.local_rank = read.number("SLURM_LOCALID", rank_name, {.most = rank.local_size - 1});
  auto id = one_replica_each(LaunchedBy::Slurm, rank, read, "SLURM_LOCALID");
  id.session = session_of(environment, {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"});
  read_slurm_nodes(environment, read, node, id);
  return id;
}

/// A step that srun started. Batch scripts and interactive shells have variables of Slurm too, but
/// are one process, whatever the allocation's task count; their step ids are reserved large
/// numbers.
bool is_slurm_task(const Environment& environment) {
  constexpr std::int64_t kFirstReservedStep = 0xfffffff0;
  const auto step = environment.get("SLURM_STEP_ID");
  if (!step || !environment.has("SLURM_STEP_NUM_TASKS")) return false;
  const auto number = parse_integer(*step);
  return !number || *number < kFirstReservedStep;
}

Identity read_place(const Environment& environment) {
  const auto has = [&](const char* name) { return environment.has(name); };
  if (has("LOCKSTEP_INSTANCE_INDEX") || has("LOCKSTEP_NUM_INSTANCES")) {
    return read_lockstep(environment);
  }
  if (has("RANK") || has("WORLD_SIZE")) return read_torchrun(environment);
  if (has("OMPI_COMM_WORLD_RANK") || has("OMPI_COMM_WORLD_SIZE")) return read_open_mpi(environment);
  if (is_slurm_task(environment)) return read_slurm(environment);
  return {};
}

/// What the launcher hands on, and what users of other launchers may set themselves.
void read_settings(const Environment& environment, Identity& id) {
  const Reader read(environment);
  id.command = environment.get(kCommandVariable);
  if (const auto seconds = environment.get("LOCKSTEP_STALL_TIMEOUT")) {
    id.stall_timeout = read_seconds(read, "LOCKSTEP_STALL_TIMEOUT", *seconds);
  }
  if (const auto name = environment.get("LOCKSTEP_TRANSPORT")) {
    const auto transport = parse_transport(*name);
    if (!transport) throw read.error("LOCKSTEP_TRANSPORT", "auto, local, shm, tcp or mpi");
    id.transport = *transport;
  }
}

}  // namespace

void write_identity(Environment& environment, const Identity& id, const Rendezvous& rendezvous) {
  const auto set = [&](const std::string& name, const auto& value) {
    environment.set(name, fmt::format("{}", value));
  };
  set("LOCKSTEP_JOB_ID", id.job_id);
  set("LOCKSTEP_RUN_DIR", id.run_dir);
  set("LOCKSTEP_INSTANCE_INDEX", id.instance);
  set("LOCKSTEP_NUM_INSTANCES", id.num_instances);
  set("LOCKSTEP_LOCAL_INSTANCE_INDEX", id.local_instance);
  set("LOCKSTEP_NUM_LOCAL_INSTANCES", id.num_local_instances);
  set("LOCKSTEP_NUM_REPLICAS", id.num_replicas);
  set("LOCKSTEP_NUM_LOCAL_REPLICAS", id.local_replicas.count);
  set("LOCKSTEP_REPLICA_OFFSET", id.local_replicas.first);
  set("LOCKSTEP_DEVICES_PER_REPLICA", id.devices_per_replica);
  set("LOCKSTEP_DEVICE_IDS", fmt::format("{}", fmt::join(id.device_ids, ",")));
  set("LOCKSTEP_THREADS_PER_DEVICE", id.threads_per_device.value_or(1));
  set("LOCKSTEP_RESTART_COUNT", id.restart_count);
  set("LOCKSTEP_STALL_TIMEOUT", id.stall_timeout.count());
  set("LOCKSTEP_TRANSPORT", name_of(id.transport));
  if (id.cache_path) set("LOCKSTEP_CACHE_PATH", *id.cache_path);
  const auto set_or_remove = [&](const char* name, const auto& value) {
    environment.remove(name);  // that of a job around this one
    if (value) set(name, *value);
  };
  set_or_remove("LOCKSTEP_EVENTS", id.events_file);
  set_or_remove("LOCKSTEP_KEPT_MEMORY", id.kept_memory);
  const bool has_hosts = !id.hosts.empty();
  set_or_remove("LOCKSTEP_HOSTS", has_hosts ? std::optional(to_text(id.hosts)) : std::nullopt);
  set_or_remove("LOCKSTEP_HOST_INDEX", has_hosts ? std::optional(id.host) : std::nullopt);
  set_or_remove("LOCKSTEP_LISTENER", id.listener);

  for (const auto* name : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"}) {
    environment.remove(std::string("OMPI_COMM_WORLD_") + name);  // those of whoever started us
  }
  set("RANK", id.instance);
  set("WORLD_SIZE", id.num_instances);
  set("LOCAL_RANK", id.local_instance);
  set("LOCAL_WORLD_SIZE", id.num_local_instances);
  set("MASTER_ADDR", rendezvous.address);
  set("MASTER_PORT", rendezvous.port);
}

std::optional<TransportKind> parse_transport(std::string_view name) {
  for (const auto kind : {TransportKind::Auto, TransportKind::Local, TransportKind::Shm,
                          TransportKind::Tcp, TransportKind::Mpi}) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

std::string_view name_of(TransportKind transport) noexcept {
  switch (transport) {
    case TransportKind::Auto:
      return "auto";
    case TransportKind::Local:
      return "local";
    case TransportKind::Shm:
      return "shm";
    case TransportKind::Tcp:
      return "tcp";
    case TransportKind::Mpi:
      return "mpi";
  }
  return "?";
}

Identity read_identity(const Environment& environment) {
  auto identity = read_place(environment);
  read_settings(environment, identity);
  return identity;
}

}  // namespace lockstep::topology
