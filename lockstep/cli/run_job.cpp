#include "lockstep/cli/run_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/signal_name.h"
#include "lockstep/base/strings.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/dashboard_process.h"
#include "lockstep/cli/run_on_hosts.h"
#include "lockstep/cli/topology_table.h"
#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/events/job_log.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/launch/engine/transport_choice.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/launch/place/shrink.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/launch/start/reserved_port.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/launch/supervise/supervisor.h"
#include "lockstep/launch/supervise/warden.h"
#include "lockstep/monitor/status/status_feed.h"
#include "lockstep/ui/job_console.h"

namespace lockstep::cli {
namespace {

using launch::JobPlan;

void make_log_dir(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::Io, fmt::format("run: --log-dir {}: {}", folder, error.message()),
                "--log-dir with a folder that you may make and write to");
  }
}

/// A single instance has nobody to be mixed up with: on a terminal its bytes pass untouched, so
/// that prompts, colours and bars are what they would be without us.
launch::OutputStream::Mode output_mode(const ui::ConsoleOptions& console, int fd) {
  const bool untagged = console.tags == ui::TagStyle::Never ||
                        (console.tags == ui::TagStyle::Auto && ::isatty(fd) == 1);
  return console.num_instances == 1 && untagged ? launch::OutputStream::Mode::Raw
                                                : launch::OutputStream::Mode::Lines;
}

/// The folder of what is written down, or else that of the job; with its whole path, for instances
/// may go elsewhere.
std::string events_file(const std::string& log_dir, const launch::RunDirectory& folder) {
  const auto path = std::filesystem::path(log_dir.empty() ? folder.path() : log_dir);
  return (std::filesystem::absolute(path) / "events.jsonl").string();
}

/// In a job within a job, the memory that the outer launcher keeps is not for the instances of the
/// inner one, which would inherit it from this process.
void keep_to_ourselves(const topology::Environment& environment) {
  const auto fd = parse_integer(environment.get("LOCKSTEP_KEPT_MEMORY").value_or(""));
  if (!fd) return;
  try {
    comm::host::KeptMemory::open(static_cast<int>(*fd),
                                 environment.get("LOCKSTEP_JOB_ID").value_or(""));
    ::fcntl(static_cast<int>(*fd), F_SETFD, FD_CLOEXEC);
  } catch (const Error&) {
    // Whatever has that number is somebody else's.
  }
}

/// A job that is about to be started, and what it is started from.
struct LocalJob {
  const RunArguments& arguments;
  const JobPlan& plan;
  const std::string& program;
  launch::Shrinker shrinker;
};

/// The supervisor's process: runs the job and reports what went wrong.
int supervise(LocalJob& job, const launch::JobContext& context, comm::host::KeptMemory& memory,
              launch::Signals& signals, int warden) {
  const auto& run = job.arguments.run;
  const auto& console_options = job.arguments.console;
  const launch::InstanceStarter starter(
      context,
      {.program = job.program,
       .arguments = run.command,
       .log_dir = run.log_dir,
       .stdout_mode = output_mode(console_options, STDOUT_FILENO),
       .stderr_mode = output_mode(console_options, STDERR_FILENO)},
      signals);
  ui::JobConsole console(console_options, STDOUT_FILENO, STDERR_FILENO);
  events::JobLog log(context.events_file, console);
  const int code = launch::Supervisor(job.plan, starter,
                                      {.max_restarts = run.max_restarts,
                                       .grace_period = run.grace_period,
                                       .stall_timeout = run.stall_timeout,
                                       .warden = warden,
                                       .chaos = run.chaos,
                                       .kept_memory = &memory,
                                       .shrinker = run.shrink ? &job.shrinker : nullptr},
                                      signals, log)
                       .run();
  if (const int error = console.output_error(); error != 0 && error != EPIPE) {
    fmt::print(stderr, "lockstep: standard output cannot be written: {}\n", std::strerror(error));
  }
  return code;
}

int start(LocalJob job, const topology::Environment& environment) {
  keep_to_ourselves(environment);
  launch::Signals signals;
  const launch::ReservedPort port;
  launch::RunDirectory folder(environment);
  const auto dashboard = start_dashboard(job.arguments, folder.job_id(), environment, signals);
  launch::JobContext context{.job_id = folder.job_id(),
                             .run_dir = folder.path(),
                             .rendezvous = {"127.0.0.1", port.port()},
                             .environment = environment,
                             .events_file = events_file(job.arguments.run.log_dir, folder)};
  const auto status =
      launch::run_under_warden(signals, job.arguments.run.grace_period, [&](int warden) {
        const int code = report_errors([&] {
          folder.create();
          monitor::leave_path_of_events(folder.path(), context.events_file);
          // Here, so that it ends with the supervisor.
          auto memory = comm::host::KeptMemory::create(folder.job_id());
          context.kept_memory = memory.file();
          return supervise(job, context, memory, signals, warden);
        });
        folder.remove();
        if (dashboard) dashboard->finish();
        return code;
      });
  folder.remove();
  if (status.signal != 0) {
    fmt::print(stderr,
               "lockstep: the job's supervisor was killed by {}; every process of the job was "
               "ended\n",
               signal_name(status.signal));
  }
  return status.shell_code();
}

/// A job with agents. What other hosts are like is not known in a dry run: they are taken to be
/// like this one.
int run_with_agents(RunArguments arguments, const HostsPlan& hosts,
                    const topology::Environment& environment) {
  if (!hosts.is_this_process()) launch::check_fits_hosts(arguments.run);
  // On one host, memory carries collectives; but who asks for MPI has to have it.
  if (hosts.used.size() > 1 || arguments.run.transport == topology::TransportKind::Mpi) {
    arguments.run.transport = launch::choose_transport(arguments.run, hosts.engine);
  }
  if (!arguments.dry_run) {
    keep_to_ourselves(environment);
    make_log_dir(arguments.run.log_dir);
    return run_on_hosts(arguments, hosts, environment);
  }
  const auto plan = launch::plan_job(arguments.run, hosts.all, launch::discover_machine());
  const auto engine = engine_of(arguments, hosts, environment);
  fmt::print("{}\n{}", topology_table(plan), describe_engine(arguments, *engine, hosts));
  return 0;
}

}  // namespace

int run_job(const RunArguments& arguments, const topology::Environment& environment) {
  const auto hosts = plan_hosts(arguments, environment);
  if (!hosts.is_this_process() || arguments.host_check_only) {
    return run_with_agents(arguments, hosts, environment);
  }
  const auto machine = launch::discover_machine();
  const auto plan = launch::plan_job(arguments.run, hosts.all, machine);
  if (arguments.print_topology || arguments.dry_run) {
    fmt::print("{}{}", topology_table(plan), arguments.dry_run ? "" : "\n");
    // Before the supervisor writes there.
    if (std::fflush(stdout) != 0) throw io_error("standard output");
  }
  if (arguments.dry_run) return 0;
  const auto program = launch::find_program(arguments.run.command.front(), environment);
  make_log_dir(arguments.run.log_dir);
  return start({arguments, plan, program, launch::Shrinker(arguments.run, hosts.all, machine)},
               environment);
}

}  // namespace lockstep::cli
