#include "lockstep/cli/run_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/signal_name.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/topology_table.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/launch/start/reserved_port.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/launch/supervise/supervisor.h"
#include "lockstep/launch/supervise/warden.h"
#include "lockstep/ui/job_console.h"

namespace lockstep::cli {
namespace {

using launch::JobPlan;

void check_hosts_can_be_started(const JobPlan& plan) {
  for (const auto& instance : plan.instances) {
    if (launch::is_this_host(instance.host)) continue;
    throw Error(ErrorKind::Unavailable,
                fmt::format("run: host '{}' is not this machine ('{}'), and this version starts "
                            "instances on this machine only",
                            instance.host, launch::this_host()),
                "--dry-run, which shows where everything would run");
  }
}

void make_log_dir(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::Io, fmt::format("run: --log-dir {}: {}", folder, error.message()));
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

/// The supervisor's process: runs the job and reports what went wrong.
int supervise(const RunArguments& arguments, const JobPlan& plan,
              const launch::InstanceStarter& starter, launch::Signals& signals, int warden) {
  ui::JobConsole console(arguments.console, STDOUT_FILENO, STDERR_FILENO);
  const int code = launch::Supervisor(plan, starter,
                                      {.max_restarts = arguments.run.max_restarts,
                                       .grace_period = arguments.run.grace_period,
                                       .warden = warden},
                                      signals, console)
                       .run();
  if (const int error = console.output_error(); error != 0 && error != EPIPE) {
    fmt::print(stderr, "lockstep: standard output cannot be written: {}\n", std::strerror(error));
  }
  return code;
}

int start(const RunArguments& arguments, const JobPlan& plan, const std::string& program,
          const topology::Environment& environment) {
  launch::Signals signals;
  const launch::ReservedPort port;
  launch::RunDirectory folder(environment);
  const launch::JobContext context{
      folder.job_id(), folder.path(), {"127.0.0.1", port.port()}, environment};
  const auto status =
      launch::run_under_warden(signals, arguments.run.grace_period, [&](int warden) {
        const int code = report_errors([&] {
          folder.create();
          const launch::InstanceStarter starter(
              plan, context,
              {.program = program,
               .arguments = arguments.run.command,
               .log_dir = arguments.run.log_dir,
               .stdout_mode = output_mode(arguments.console, STDOUT_FILENO),
               .stderr_mode = output_mode(arguments.console, STDERR_FILENO)},
              signals);
          return supervise(arguments, plan, starter, signals, warden);
        });
        folder.remove();
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

}  // namespace

int run_job(const RunArguments& arguments, const topology::Environment& environment) {
  auto hosts = launch::discover_hosts(arguments.run.host_list, arguments.run.hostfile);
  const auto machine = launch::discover_machine();
  const auto plan = launch::plan_job(arguments.run, std::move(hosts), machine);
  if (arguments.print_topology || arguments.dry_run) {
    fmt::print("{}{}", topology_table(plan), arguments.dry_run ? "" : "\n");
    // Before the supervisor writes there.
    if (std::fflush(stdout) != 0) throw io_error("standard output");
  }
  if (arguments.dry_run) return 0;
  check_hosts_can_be_started(plan);
  const auto program = launch::find_program(arguments.run.command.front(), environment);
  make_log_dir(arguments.run.log_dir);
  return start(arguments, plan, program, environment);
}

}  // namespace lockstep::cli
