#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
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
using launch::RunOptions;

const std::map<std::string, topology::BindPolicy> kBindPolicies{
    {"auto", topology::BindPolicy::Auto},
    {"none", topology::BindPolicy::None},
    {"core", topology::BindPolicy::Core},
    {"numa", topology::BindPolicy::Numa}};

const std::map<std::string, ui::TagStyle> kTagStyles{{"auto", ui::TagStyle::Auto},
                                                     {"always", ui::TagStyle::Always},
                                                     {"never", ui::TagStyle::Never},
                                                     {"mpi", ui::TagStyle::Mpi}};

/// All that `lockstep run` can be told.
struct RunArguments {
  RunOptions run;
  ui::ConsoleOptions console;
  std::string bind = "auto";
  std::string tags = "auto";
  std::string export_config;
  bool print_topology = false;
  bool dry_run = false;
  bool verbose = false;
  bool quiet = false;
};

constexpr const char* kFooter =
    "The program gets its place in the job from LOCKSTEP_* variables, and RANK, WORLD_SIZE,\n"
    "LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for torch.distributed.\n"
    "Instance 0 reads standard input where that is a file or a pipe; the others read nothing.\n"
    "Ctrl-C and SIGTERM end the job with SIGTERM and, after the grace period, SIGKILL; a second\n"
    "one kills at once. SIGUSR1 and SIGUSR2 are passed on to every instance.\n"
    "\n"
    "Exit code: that of the first instance that failed by itself, 128+n for signal n; 127 or 126\n"
    "where the program is not found or cannot be executed; 2 for a wrong option.\n"
    "\n"
    "Example: lockstep run --num-replicas 8 --num-instances 4 ./train --epochs 5\n";

void add_size_options(CLI::App& app, RunArguments& to) {
  const auto* group = "Size";
  app.add_option("--num-replicas", to.run.num_replicas,
                 "replicas of the whole job [one per instance]")
      ->type_name("R")
      ->group(group);
  app.add_option("--num-instances", to.run.num_instances,
                 "processes; earlier ones carry one replica more where R does not divide")
      ->type_name("I")
      ->group(group)
      ->capture_default_str();
  app.add_option("--devices-per-replica,--ipus-per-replica", to.run.devices_per_replica,
                 "stages of one replica, each on a device of its own")
      ->type_name("S")
      ->group(group)
      ->capture_default_str();
  app.add_option("--threads-per-device", to.run.threads_per_device,
                 "threads of each device; part of what results depend on "
                 "[cores of a host / most devices on any host]")
      ->type_name("T")
      ->group(group);
}

void add_place_options(CLI::App& app, RunArguments& to) {
  const auto* group = "Place";
  app.add_option("-H,--host", to.run.host_list,
                 "hosts, as a,b:4,node[0-2,4]; b:4 takes at most 4 instances [this host]")
      ->type_name("LIST")
      ->group(group);
  app.add_option("--hostfile", to.run.hostfile, "the same from a file, one or more a line")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--bind", to.bind,
                 "bind instances to cores: auto divides a host's cores among its instances "
                 "where there are enough, core insists, numa takes whole NUMA nodes")
      ->check(CLI::IsMember({"auto", "none", "core", "numa"}))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--print-topology", to.print_topology,
               "show hosts, instances, replicas, devices and cores")
      ->group(group);
  app.add_flag("--dry-run", to.dry_run, "show that and stop")->group(group)->configurable(false);
}

void add_output_options(CLI::App& app, RunArguments& to) {
  const auto* group = "Output";
  app.add_option("--tag-output", to.tags,
                 "what begins each line: auto writes [i] where there are several instances, mpi "
                 "writes [1,i]<stdout>:; one untagged instance passes bytes untouched to a "
                 "terminal, and with never to anything")
      ->check(CLI::IsMember({"auto", "always", "never", "mpi"}))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_option("--only-output-from-instance", to.console.only_instance,
                 "hide the others; a failure is reported all the same")
      ->type_name("I")
      ->group(group);
  app.add_option("--log-dir", to.run.log_dir,
                 "also write each stream to DIR/instance-I.stdout and .stderr")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("-v,--verbose", to.verbose, "say what is started where")->group(group);
  app.add_flag("-q,--quiet", to.quiet, "say nothing but errors and warnings")->group(group);
}

void add_failure_options(CLI::App& app, RunArguments& to) {
  const auto* group = "Failure";
  app.add_option("--max-restarts", to.run.max_restarts, "start a failed job again, at most N times")
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_option_function<double>(
         "--stall-timeout",
         [&](double seconds) { to.run.stall_timeout = events::Seconds(seconds); },
         "give up on an instance that is this late; 0 waits for ever [60]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option_function<double>(
         "--grace-period", [&](double seconds) { to.run.grace_period = events::Seconds(seconds); },
         "time between SIGTERM and SIGKILL [5]")
      ->type_name("SECONDS")
      ->group(group);
}

void add_file_options(CLI::App& app, RunArguments& to) {
  const auto* group = "Settings";
  app.add_option("--cache-path,--executable-cache-path", to.run.cache_path,
                 "where programs keep their plans between runs")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--env", to.run.environment, "set a variable for every instance; repeatable")
      ->type_name("NAME=VALUE")
      ->group(group)
      ->allow_extra_args(false);
  app.set_config("--config", "", "read options from a file; the command line wins")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--export-config", to.export_config, "write the options given to a file")
      ->type_name("FILE")
      ->group(group)
      ->configurable(false);
  app.allow_config_extras(CLI::config_extras_mode::error);
}

/// Takes the command from behind the options. An unknown option must not pass for a program.
void take_command(const CLI::App& app, const std::vector<std::string>& all, RunOptions& to) {
  to.command = app.remaining();
  if (to.command.empty()) return;
  const auto before = all.size() - to.command.size();
  const bool behind_dashes = before > 0 && all[before - 1] == "--";
  if (to.command.front() == "--") {
    to.command.erase(to.command.begin());
  } else if (to.command.front().starts_with('-') && !behind_dashes) {
    refuse_unknown_option(app, to.command.front());
  }
}

void check(const RunArguments& arguments) {
  if (arguments.run.command.empty() && !arguments.dry_run) {
    throw Error(ErrorKind::Options, "run: expected a program to start, found none",
                "lockstep run --num-instances 4 hostname");
  }
  if (arguments.verbose && arguments.quiet) {
    throw Error(ErrorKind::Options, "run: expected --verbose or --quiet, found both");
  }
  const auto only = arguments.console.only_instance;
  if (only && (*only < 0 || *only >= arguments.run.num_instances)) {
    throw Error(ErrorKind::Options,
                fmt::format("run: --only-output-from-instance is {}, expected 0 to {}", *only,
                            arguments.run.num_instances - 1));
  }
}

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

int run_job(RunArguments& arguments, const topology::Environment& environment) {
  check(arguments);
  auto hosts = launch::discover_hosts(arguments.run.host_list, arguments.run.hostfile);
  const auto machine = launch::discover_machine();
  const auto plan = launch::plan_job(arguments.run, std::move(hosts), machine);
  if (arguments.print_topology || arguments.dry_run) {
    fmt::print("{}{}", topology_table(plan), arguments.dry_run ? "" : "\n");
    std::fflush(stdout);  // before the supervisor writes there
  }
  if (arguments.dry_run) return 0;
  check_hosts_can_be_started(plan);
  const auto program = launch::find_program(arguments.run.command.front(), environment);
  make_log_dir(arguments.run.log_dir);
  return start(arguments, plan, program, environment);
}

}  // namespace

int run(const Invocation& invocation) {
  RunArguments arguments;
  CLI::App app("Starts a program in many instances on this host and watches over them.", "run");
  set_usage(app, "run [options] [--] program [arguments...]");
  app.footer(kFooter);
  app.prefix_command();
  add_size_options(app, arguments);
  add_place_options(app, arguments);
  add_output_options(app, arguments);
  add_failure_options(app, arguments);
  add_file_options(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  take_command(app, invocation.arguments, arguments.run);

  arguments.run.bind = kBindPolicies.at(arguments.bind);
  arguments.console.tags = kTagStyles.at(arguments.tags);
  arguments.console.num_instances = arguments.run.num_instances;
  if (arguments.verbose) arguments.console.verbosity = ui::Verbosity::Verbose;
  if (arguments.quiet) arguments.console.verbosity = ui::Verbosity::Quiet;
  if (!arguments.export_config.empty()) {
    write_file(arguments.export_config, app.config_to_str(false, false));
  }
  return run_job(arguments, invocation.environment);
}

}  // namespace lockstep::cli
