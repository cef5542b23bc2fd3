#include "lockstep/cli/run_on_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/signal_name.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/dashboard_process.h"
#include "lockstep/cli/host_table.h"
#include "lockstep/cli/installed_programs.h"
#include "lockstep/cli/topology_table.h"
#include "lockstep/events/job_log.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/engine/srun_engine.h"
#include "lockstep/launch/engine/transport_choice.h"
#include "lockstep/launch/hosts/coordinator.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/launch/supervise/warden.h"
#include "lockstep/monitor/status/status_feed.h"
#include "lockstep/ui/job_console.h"

namespace lockstep::cli {
namespace {

using launch::EngineKind;

/// Agents have to hear of an end, and say that it has come.
constexpr events::Seconds kTimeForWords{10};

std::vector<topology::Host> named_hosts(const launch::RunOptions& run,
                                        const topology::Environment& environment) {
  const bool are_named = !run.host_list.empty() || !run.hostfile.empty();
  const bool asks_slurm = run.launcher == EngineKind::Auto || run.launcher == EngineKind::Srun;
  const bool is_allocated = launch::is_in_allocation(environment);
  if (run.launcher == EngineKind::Srun && !is_allocated) {
    throw Error(ErrorKind::Unavailable,
                "run: --launcher srun needs an allocation of Slurm's, and this process has none",
                "run it from salloc or a batch script, or with --launcher ssh");
  }
  if (!are_named && asks_slurm && is_allocated) return launch::hosts_of_allocation(environment);
  return launch::discover_hosts(run.host_list, run.hostfile);
}

std::vector<topology::Host> hosts_with_instances(const launch::RunOptions& run,
                                                 const std::vector<topology::Host>& all) {
  const auto placement = launch::place_job(run, all);
  std::vector<topology::Host> used;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!placement.on_host(static_cast<int>(i)).empty()) used.push_back(all[i]);
  }
  return used;
}

void check_are_here(const HostsPlan& hosts, const topology::Environment& environment) {
  if (hosts.engine != EngineKind::Local) return;
  for (const auto& host : hosts.used) {
    if (launch::is_this_host(host.name, environment)) continue;
    throw Error(ErrorKind::Unavailable,
                fmt::format("run: host '{}' is not this machine ('{}'), and --launcher local "
                            "starts instances on this machine only",
                            host.name, launch::this_host()),
                "--launcher ssh, or another --host");
  }
}

void check_mpi_args(const launch::RunOptions& run, EngineKind engine) {
  if (engine == EngineKind::Mpirun) return;
  for (const auto& [option, words] : {std::pair("--mpi-global-args", &run.mpi_global_args),
                                      std::pair("--mpi-local-args", &run.mpi_local_args)}) {
    if (words->empty()) continue;
    throw Error(
        ErrorKind::Options,
        fmt::format("run: {} is for mpirun, but the job's launcher is {}", option, name_of(engine)),
        fmt::format("--launcher mpirun, or leave {} out", option));
  }
}

std::vector<std::string> names_of(const std::vector<topology::Host>& hosts) {
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  return names;
}

std::string command_lines(const launch::Engine& engine, std::size_t hosts,
                          const std::string& prefix) {
  std::vector<int> all(hosts);
  std::iota(all.begin(), all.end(), 0);
  std::string text;
  for (const auto& command : engine.commands(all)) {
    std::vector<std::string> words;
    for (const auto& word : command.arguments) words.push_back(launch::quote_word(word));
    text += fmt::format("{}{}\n", prefix, fmt::join(words, " "));
  }
  return text;
}

/// The file that instances run, with its whole path, which is the same on every host.
std::string program_path(const RunArguments& arguments, const topology::Environment& environment) {
  if (arguments.run.command.empty()) return {};
  const auto found = launch::find_program(arguments.run.command.front(), environment);
  return std::filesystem::absolute(found).lexically_normal().string();
}

std::string absolute_or_empty(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).string();
}

/// Everything that is decided before the launcher splits in two.
struct MultiHostJob {
  RunArguments arguments;
  const HostsPlan& hosts;
  launch::HostsJob on_hosts;
  std::unique_ptr<launch::Engine> engine;
};

void print_topology(const MultiHostJob& job, const launch::JobPlan& plan) {
  fmt::print("{}\n{}\n", topology_table(plan),
             describe_engine(job.arguments, *job.engine, job.hosts));
  if (std::fflush(stdout) != 0) throw io_error("standard output");
}

/// The reports decide: what to print, and the exit code where nothing is to be started.
std::optional<int> judge(const RunArguments& arguments,
                         const std::vector<launch::HostReport>& reports, events::JobSink& sink) {
  const bool are_good = std::ranges::all_of(reports, &launch::HostReport::is_good);
  if (arguments.host_check_only) {
    fmt::print("{}", host_table(reports));
    return are_good ? 0 : exit_code(ErrorKind::Unavailable);
  }
  if (!are_good) {
    auto table = host_table(reports);
    table.pop_back();
    throw Error(ErrorKind::Unavailable,
                "run: some hosts failed the checks; no instance was started\n\n" + table,
                "correct the problems, then check the hosts again with --host-check-only");
  }
  for (const auto& report : reports) {
    if (!report.has_clock_skew()) continue;
    sink.on(events::Warning{
        fmt::format("the clock of host {} is {:+.1f} s off: times in logs will not agree",
                    report.name, *report.clock_ahead)});
  }
  return std::nullopt;
}

/// The coordinator's process.
int coordinate(const MultiHostJob& job, launch::Signals& signals, int warden) {
  ui::JobConsole console(job.arguments.console, STDOUT_FILENO, STDERR_FILENO);
  events::JobLog log(job.on_hosts.events_file, console);
  launch::Coordinator coordinator(job.on_hosts, *job.engine, signals, log, warden);
  const auto reports = coordinator.check();
  if (const auto code = coordinator.interrupted()) return *code;
  if (const auto code = judge(job.arguments, reports, log)) return *code;
  const auto plan = launch::plan_job(job.arguments.run, job.hosts.used, coordinator.machines());
  if (job.arguments.print_topology) print_topology(job, plan);
  const int code = coordinator.run(plan);
  if (const int error = console.output_error(); error != 0 && error != EPIPE) {
    fmt::print(stderr, "lockstep: standard output cannot be written: {}\n", std::strerror(error));
  }
  return code;
}

}  // namespace

HostsPlan plan_hosts(const RunArguments& arguments, const topology::Environment& environment) {
  const auto& run = arguments.run;
  HostsPlan hosts;
  hosts.all = named_hosts(run, environment);
  hosts.used = arguments.host_check_only ? hosts.all : hosts_with_instances(run, hosts.all);
  const bool all_are_this_host = std::ranges::all_of(hosts.used, [&](const topology::Host& host) {
    return launch::is_this_host(host.name, environment);
  });
  hosts.engine = launch::choose_engine(run.launcher, all_are_this_host, environment);
  check_mpi_args(run, hosts.engine);
  if (!arguments.dry_run) check_are_here(hosts, environment);
  return hosts;
}

std::unique_ptr<launch::Engine> engine_of(const RunArguments& arguments, const HostsPlan& hosts,
                                          const topology::Environment& environment) {
  launch::EngineOptions options{.hosts = names_of(hosts.used),
                                .lockstep = own_program(),
                                .is_root = ::getuid() == 0,
                                .stall_timeout = arguments.run.stall_timeout,
                                .mpi_ssh_is_set = environment.has("OMPI_MCA_plm_rsh_args"),
                                .mpi_global_args = arguments.run.mpi_global_args,
                                .mpi_local_args = arguments.run.mpi_local_args};
  for (const auto& host : hosts.used) {
    options.is_this_host.push_back(launch::is_this_host(host.name, environment));
  }
  return launch::make_engine(hosts.engine, std::move(options));
}

std::string describe_engine(const RunArguments& arguments, const launch::Engine& engine,
                            const HostsPlan& hosts) {
  return fmt::format("launcher: {}; transport: {}\n{}", name_of(engine.kind()),
                     name_of(arguments.run.transport),
                     command_lines(engine, hosts.used.size(), "  "));
}

int run_on_hosts(const RunArguments& arguments, const HostsPlan& hosts,
                 const topology::Environment& environment) {
  launch::Signals signals;
  launch::RunDirectory folder(environment);
  const auto& run = arguments.run;
  const auto log_dir = absolute_or_empty(run.log_dir);
  MultiHostJob job{
      .arguments = arguments,
      .hosts = hosts,
      .on_hosts = {.hosts = names_of(hosts.used),
                   .job_id = folder.job_id(),
                   .secret = comm::tcp::Secret::random(),
                   .program = program_path(arguments, environment),
                   .arguments = run.command,
                   .folder = std::filesystem::current_path().string(),
                   .run_dir = folder.path(),
                   .environment = environment,
                   .log_dir = log_dir,
                   .events_file = (log_dir.empty() ? folder.path() : log_dir) + "/events.jsonl",
                   .grace_period = run.grace_period,
                   .stall_timeout = run.stall_timeout,
                   .max_restarts = run.max_restarts,
                   .joins_mpi = run.transport == topology::TransportKind::Mpi},
      .engine = engine_of(arguments, hosts, environment)};
  if (arguments.console.verbosity == ui::Verbosity::Verbose) {
    fmt::print(stderr, "{}", command_lines(*job.engine, hosts.used.size(), "lockstep: "));
  }
  const auto dashboard = start_dashboard(arguments, folder.job_id(), environment, signals);
  const auto status =
      launch::run_under_warden(signals, run.grace_period + kTimeForWords, [&](int warden) {
        const int code = report_errors([&] {
          folder.create();
          monitor::leave_path_of_events(folder.path(), job.on_hosts.events_file);
          return coordinate(job, signals, warden);
        });
        folder.remove();
        std::fflush(stdout);
        if (dashboard) dashboard->finish();
        return code;
      });
  folder.remove();
  if (status.signal != 0) {
    fmt::print(stderr, "lockstep: the job's coordinator was killed by {}; its agents end the job\n",
               signal_name(status.signal));
  }
  return status.shell_code();
}

}  // namespace lockstep::cli
