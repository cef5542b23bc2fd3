#include "lockstep/comm/connect.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/comm/shm/join.h"
#include "lockstep/events/event_log.h"

namespace lockstep::comm {
namespace {

using topology::TransportKind;

TransportKind choose_transport(const topology::Identity& identity) {
  if (identity.num_local_instances != identity.num_instances) {
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("communicator: {} of {} instances are on other hosts, and this version "
                    "connects those of one host only",
                    identity.num_instances - identity.num_local_instances, identity.num_instances),
        "run the job on one host");
  }
  const bool is_alone = identity.num_instances == 1;
  if (identity.transport == TransportKind::Auto) {
    return is_alone ? TransportKind::Local : TransportKind::Shm;
  }
  if (identity.transport == TransportKind::Local && !is_alone) {
    throw Error(ErrorKind::Options,
                fmt::format("communicator: transport local connects threads of one process, but "
                            "there are {} instances",
                            identity.num_instances),
                "pass --transport auto or shm");
  }
  return identity.transport;
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
  const shm::MeetingPlace place{
      .folder = identity.run_dir,
      .session = identity.session.empty() ? fmt::format("alone-{}", ::getpid()) : identity.session,
      .instance = identity.instance,
      .num_instances = identity.num_instances,
      .kept = kept};
  return std::make_unique<Communicator>(shm::join(place, options));
}

}  // namespace lockstep::comm
