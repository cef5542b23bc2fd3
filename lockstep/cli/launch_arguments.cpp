#include "lockstep/cli/launch_arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <map>

#include "lockstep/base/error.h"
#include "lockstep/cli/dashboard_port.h"
#include "lockstep/cli/whole_number.h"

namespace lockstep::cli {
namespace {

const std::map<std::string, topology::BindPolicy> kBindPolicies{
    {"auto", topology::BindPolicy::Auto},
    {"none", topology::BindPolicy::None},
    {"core", topology::BindPolicy::Core},
    {"numa", topology::BindPolicy::Numa}};

const std::map<std::string, ui::TagStyle> kTagStyles{{"auto", ui::TagStyle::Auto},
                                                     {"always", ui::TagStyle::Always},
                                                     {"never", ui::TagStyle::Never},
                                                     {"mpi", ui::TagStyle::Mpi}};

const std::map<std::string, launch::EngineKind> kLaunchers{{"auto", launch::EngineKind::Auto},
                                                           {"local", launch::EngineKind::Local},
                                                           {"mpirun", launch::EngineKind::Mpirun},
                                                           {"srun", launch::EngineKind::Srun},
                                                           {"ssh", launch::EngineKind::Ssh}};

template <typename Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

void check(const std::string& where, const LaunchArguments& arguments) {
  if (arguments.verbose && arguments.quiet) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected --verbose or --quiet, found both", where));
  }
  const auto only = arguments.parsed.console.only_instance;
  if (only && (*only < 0 || *only >= arguments.parsed.run.num_instances)) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: --only-output-from-instance is {}, expected 0 to {}", where, *only,
                            arguments.parsed.run.num_instances - 1));
  }
}

}  // namespace

void add_stage_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option("--devices-per-replica,--ipus-per-replica", to.parsed.run.devices_per_replica,
                 "stages of one replica, each on a device of its own")
      ->check(whole_number(1))
      ->type_name("S")
      ->group(group)
      ->capture_default_str();
}

void add_size_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option("--num-instances", to.parsed.run.num_instances,
                 "processes; earlier ones carry one replica more where R does not divide")
      ->type_name("I")
      ->group(group)
      ->capture_default_str();
  app.add_option("--threads-per-device", to.parsed.run.threads_per_device,
                 "threads of each device; part of what results depend on "
                 "[cores of a host / most devices on any host]")
      ->type_name("T")
      ->group(group);
}

void add_host_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option("-H,--host", to.parsed.run.host_list,
                 "hosts, as a,b:4,node[0-2,4]; b:4 takes at most 4 instances [the nodes of Slurm's "
                 "allocation, or this host]")
      ->type_name("LIST")
      ->group(group);
  app.add_option("--hostfile", to.parsed.run.hostfile, "the same from a file, one or more a line")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--launcher", to.launcher,
                 "who starts the job on other hosts: auto takes srun within an allocation, else "
                 "mpirun where it is installed, else ssh")
      ->check(CLI::IsMember(names_of(kLaunchers)))
      ->type_name("WHO")
      ->group(group)
      ->capture_default_str();
  app.add_option("--mpi-global-args", to.mpi_global_args, "options for mpirun, as in a shell")
      ->type_name("ARGS")
      ->group(group);
  app.add_option("--mpi-local-args", to.mpi_local_args, "the same, behind those")
      ->type_name("ARGS")
      ->group(group);
  app.add_flag("--host-check-only", to.parsed.host_check_only,
               "show whether all hosts are fit for the job, and stop")
      ->group(group)
      ->configurable(false);
}

void add_bind_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option(
         "--bind", to.bind,
         "bind instances to the cores of their devices: auto where each stage has a device of "
         "its own, core always; numa takes whole NUMA nodes")
      ->check(CLI::IsMember(names_of(kBindPolicies)))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_option("--transport", to.transport,
                 "what carries collectives: shm between processes of one host, local within a "
                 "single one; between hosts tcp, or mpi where mpirun starts the job and nothing is "
                 "to be restarted; auto chooses")
      ->check(CLI::IsMember({"auto", "local", "mpi", "shm", "tcp"}))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
}

void add_console_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option("--tag-output", to.tags,
                 "what begins each line: auto writes [i] where there are several instances, mpi "
                 "writes [1,i]<stdout>:; one untagged instance passes bytes untouched to a "
                 "terminal, and with never to anything")
      ->check(CLI::IsMember(names_of(kTagStyles)))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_option("--only-output-from-instance", to.parsed.console.only_instance,
                 "hide the others; a failure is reported all the same")
      ->type_name("I")
      ->group(group);
  app.add_option("--dashboard", to.dashboard,
                 fmt::format("show the job in a browser on this machine while it runs; 0: at a "
                             "port that is free [{}]",
                             kUsualDashboardPort))
      ->expected(0, 1)
      ->default_str(std::to_string(kUsualDashboardPort))
      ->option_text("[PORT]")
      ->group(group);
  app.add_flag("-v,--verbose", to.verbose, "say what is started where")->group(group);
  app.add_flag("-q,--quiet", to.quiet, "say nothing but errors and warnings")->group(group);
}

void add_failure_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option("--max-restarts", to.parsed.run.max_restarts,
                 "start a failed job again, at most N times; what it keeps in memory goes on where "
                 "it was")
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--shrink", to.parsed.run.shrink,
               "when an instance fails twice in a row, go on with one fewer, without its cores and "
               "with the same replicas; on this machine alone")
      ->group(group);
  app.add_option_function<double>(
         "--stall-timeout",
         [&](double seconds) { to.parsed.run.stall_timeout = events::Seconds(seconds); },
         "when collectives give up on an instance that is late, and the launcher on one that is "
         "stopped; 0 waits for ever [60]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option_function<double>(
         "--grace-period",
         [&](double seconds) { to.parsed.run.grace_period = events::Seconds(seconds); },
         "time between SIGTERM and SIGKILL [5; 30 where train takes checkpoints]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option("--chaos", to.chaos,
                 "harm random instances, SECONDS apart on average [10]: kill, stop or slow them; "
                 "the same SEED does the same; on this machine alone")
      ->type_name("SEED[,mtbf=SECONDS][,kinds=kill,stop,slow]")
      ->group(group);
}

RunArguments decide(const std::string& where, LaunchArguments written) {
  check(where, written);
  auto parsed = std::move(written.parsed);
  parsed.run.bind = kBindPolicies.at(written.bind);
  parsed.run.transport = *topology::parse_transport(written.transport);
  if (!written.dashboard.empty()) {
    parsed.dashboard_port = parse_port(where + ": --dashboard", written.dashboard);
  }
  if (!written.chaos.empty()) parsed.run.chaos = launch::parse_chaos(written.chaos);
  parsed.run.launcher = kLaunchers.at(written.launcher);
  parsed.run.mpi_global_args =
      launch::split_words(written.mpi_global_args, where + ": --mpi-global-args");
  parsed.run.mpi_local_args =
      launch::split_words(written.mpi_local_args, where + ": --mpi-local-args");
  parsed.console.tags = kTagStyles.at(written.tags);
  parsed.console.num_instances = parsed.run.num_instances;
  if (written.verbose) parsed.console.verbosity = ui::Verbosity::Verbose;
  if (written.quiet) parsed.console.verbosity = ui::Verbosity::Quiet;
  return parsed;
}

}  // namespace lockstep::cli
