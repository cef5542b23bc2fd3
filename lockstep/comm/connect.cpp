#include "lockstep/comm/connect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/comm/hosts/hosts_transport.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/comm/mpi/join.h"
#include "lockstep/comm/shm/join.h"
#include "lockstep/comm/slurm/slurm_meeting.h"
#include "lockstep/comm/tcp/join.h"
#include "lockstep/events/event_log.h"

namespace lockstep::comm {
namespace {

using topology::TransportKind;

bool is_on_one_host(const topology::Identity& identity) {
  return identity.num_local_instances == identity.num_instances;
}

TransportKind choose_for_one_host(const topology::Identity& identity) {
  const bool is_alone = identity.num_instances == 1;
  if (identity.transport == TransportKind::Local && !is_alone) {
    throw Error(ErrorKind::Options,
                fmt::format("communicator: transport local connects threads of one process, but "
                            "there are {} instances",
                            identity.num_instances),
                "pass --transport auto or shm");
  }
  // Whatever would carry data between hosts has nothing to do.
  const bool is_chosen =
      identity.transport == TransportKind::Local || identity.transport == TransportKind::Shm;
  if (is_chosen) return identity.transport;
  return is_alone ? TransportKind::Local : TransportKind::Shm;
}

TransportKind choose_for_several_hosts(const topology::Identity& identity) {
  if (identity.transport == TransportKind::Local || identity.transport == TransportKind::Shm) {
    throw Error(
        ErrorKind::Options,
        fmt::format("communicator: transport {} connects instances of one host, but {} of "
                    "{} instances are on other hosts",
                    topology::name_of(identity.transport),
                    identity.num_instances - identity.num_local_instances, identity.num_instances),
        "pass --transport auto, tcp or mpi");
  }
  if (identity.transport == TransportKind::Mpi) return TransportKind::Mpi;
  if (!identity.hosts.empty()) return TransportKind::Tcp;
  if (identity.launched_by == topology::LaunchedBy::OpenMpi) return TransportKind::Mpi;
  throw Error(
      ErrorKind::Unavailable,
      fmt::format("communicator: {} of {} instances are on other hosts, and nothing says "
                  "where those are",
                  identity.num_instances - identity.num_local_instances, identity.num_instances),
      "start the job with 'lockstep run --host', or with mpirun");
}

TransportKind choose_transport(const topology::Identity& identity) {
  return is_on_one_host(identity) ? choose_for_one_host(identity)
                                  : choose_for_several_hosts(identity);
}

/// Without it the job runs all the same, and begins anew where it is restarted.
std::shared_ptr<host::KeptMemory> open_kept_memory(const topology::Identity& identity) {
  if (!identity.kept_memory) return nullptr;
  try {
    return std::make_shared<host::KeptMemory>(
        host::KeptMemory::open(*identity.kept_memory, identity.job_id));
  } catch (const Error& error) {
    log_warning(
        fmt::format("{}: a restart will not find what this attempt has come to", error.what()));
    return nullptr;
  }
}

/// Writes stalls into the job's log, if there is one. Without it the job runs all the same.
std::function<void(const Stall&)> stall_writer(const topology::Identity& identity,
                                               std::shared_ptr<host::KeptMemory> kept) {
  const auto log =
      std::make_shared<events::EventLog>(events::open_event_log(identity.events_file, log_warning));
  return [log, kept = std::move(kept)](const Stall& stall) {
    events::LogEntry entry{.event = "stall", .instance = stall.instance};
    if (kept && kept->step() >= 0) entry.step = kept->step();
    entry.more = {{"kind", stall.kind == Stall::Kind::Late ? "late" : "overdue"},
                  {"what", stall.what}};
    log->write(entry);
  };
}

shm::MeetingPlace meeting_place(const topology::Identity& identity,
                                std::shared_ptr<host::KeptMemory> kept) {
  shm::MeetingPlace place{
      .folder = identity.run_dir,
      .session = identity.session.empty() ? fmt::format("alone-{}", ::getpid()) : identity.session,
      .instance = identity.instance,
      .num_instances = identity.num_instances,
      .local_instance = identity.local_instance,
      .num_local_instances = identity.num_local_instances,
      .kept = std::move(kept)};
  if (is_on_one_host(identity) || identity.hosts.empty()) return place;
  // Hosts may have one folder in common, on a file system that they share.
  place.session += fmt::format(" host {}", identity.host);
  place.host = identity.hosts[static_cast<std::size_t>(identity.host)].name;
  return place;
}

/// The launcher's socket stays, for a communicator that is made later; but not for what a program
/// starts.
UniqueFd copy_of(const std::optional<int>& listener) {
  if (!listener) return {};
  ::fcntl(*listener, F_SETFD, FD_CLOEXEC);
  return UniqueFd(::fcntl(*listener, F_DUPFD_CLOEXEC, 3));
}

/// Where hosts find each other: in a job of our launcher's it has said so; the tasks of a step of
/// Slurm have to find out.
slurm::Met find_hosts(const topology::Identity& identity,
                      const std::shared_ptr<host::Member>& member) {
  try {
    if (identity.launched_by != topology::LaunchedBy::Slurm) {
      return {tcp::Secret::read(identity.run_dir), identity.hosts, copy_of(identity.listener)};
    }
    return slurm::meet({identity.session, identity.hosts, identity.host}, member);
  } catch (const Error& error) {
    member->fail(error);
  }
}

hosts::HostMap map_of(const std::vector<topology::JobHost>& hosts) {
  std::vector<hosts::HostMap::Part> parts;
  for (const auto& host : hosts) parts.push_back({host.name, host.num_instances});
  return hosts::HostMap::of_neighbours(parts);
}

std::unique_ptr<Transport> join_over_tcp(const topology::Identity& identity,
                                         std::shared_ptr<host::Member> member) {
  const auto found = find_hosts(identity, member);
  return tcp::join(
      {.secret = found.secret,
       .session = identity.session,
       .hosts = found.hosts,
       .map = map_of(identity.hosts),
       .host = identity.host,
       .listener = found.listener ? std::optional(found.listener.get()) : std::nullopt},
      std::move(member));
}

/// Our own launcher has mpirun start one agent per host: the leader takes its place in the MPI job,
/// and nobody else of the host is in it.
std::unique_ptr<Transport> join_over_mpi(const topology::Identity& identity,
                                         std::shared_ptr<host::Member> member) {
  const bool are_leaders_alone = !identity.hosts.empty();
  auto job = std::make_shared<hosts::HostsJob>();
  job->member = member;
  if (are_leaders_alone) job->map = map_of(identity.hosts);
  if (are_leaders_alone && identity.local_instance > 0) {
    return std::make_unique<hosts::HostsTransport>(std::move(job));
  }
  try {
    auto joined = mpi::join({.instance = identity.instance,
                             .num_instances = identity.num_instances,
                             .local_instances = member->memory().introduced(),
                             .host_name = member->memory().header().host.data()},
                            member->options());
    job->session = std::move(joined.session);
    job->fabric = std::move(joined.fabric);
    if (!are_leaders_alone) {
      job->map = std::move(joined.map);
      job->connect = std::move(joined.connect);
    }
  } catch (const Error& error) {
    member->fail(error);
  }
  if (job->fabric) {
    job->watch = std::make_unique<hosts::HostWatch>(*member, *job->fabric, job->map);
  }
  return std::make_unique<hosts::HostsTransport>(std::move(job));
}

}  // namespace

std::unique_ptr<Communicator> connect(const topology::Identity& identity) {
  const auto kind = choose_transport(identity);
  const auto kept = open_kept_memory(identity);
  const WaitOptions options{.stall_timeout = identity.stall_timeout,
                            .warn = log_warning,
                            .stalled = stall_writer(identity, kept)};
  if (kind == TransportKind::Local) {
    return std::make_unique<Communicator>(local::LocalGroup(1, options, kept).join(0));
  }
  if (identity.session.empty() && identity.num_instances > 1) {
    throw Error(
        ErrorKind::Options,
        fmt::format("communicator: nothing says where the {} instances meet",
                    identity.num_instances),
        "start them with 'lockstep run', or with a launcher that sets MASTER_ADDR and MASTER_PORT, "
        "PMIX_NAMESPACE, or SLURM_JOB_ID");
  }
  const auto place = meeting_place(identity, kept);
  if (kind == TransportKind::Shm) return std::make_unique<Communicator>(shm::join(place, options));
  auto member = shm::meet(place, options);
  return std::make_unique<Communicator>(kind == TransportKind::Tcp
                                            ? join_over_tcp(identity, std::move(member))
                                            : join_over_mpi(identity, std::move(member)));
}

}  // namespace lockstep::comm
