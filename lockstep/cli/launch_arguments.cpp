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
                 "number of stages of one replica; each stage uses its own device")
      ->check(whole_number(1))
      ->type_name("S")
      ->group(group)
      ->capture_default_str();
}

void add_size_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option(
         "--num-instances", to.parsed.run.num_instances,
         "number of processes; if R is not divisible by I, the first instances get one more "
         "replica")
      ->type_name("I")
      ->group(group)
      ->capture_default_str();
  app.add_option("--threads-per-device", to.parsed.run.threads_per_device,
                 "threads of each device; results depend on it "
                 "[cores of a host / largest number of devices on a host]")
      ->type_name("T")
      ->group(group);
}

void add_host_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option(
         "-H,--host", to.parsed.run.host_list,
         "hosts, for example a,b:4,node[0-2,4]; b:4 is at most 4 instances on b [the nodes of "
         "Slurm's allocation, or this host]")
      ->type_name("LIST")
      ->group(group);
  app.add_option("--hostfile", to.parsed.run.hostfile, "file with hosts, one or more per line")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--launcher", to.launcher,
         "program that starts the job on other hosts; auto: srun in an allocation of Slurm, else "
         "mpirun if it is installed, else ssh")
      ->check(CLI::IsMember(names_of(kLaunchers)))
      ->type_name("PROGRAM")
      ->group(group)
      ->capture_default_str();
  app.add_option("--mpi-global-args", to.mpi_global_args,
                 "options for mpirun, quoted as in a shell")
      ->type_name("ARGS")
      ->group(group);
  app.add_option("--mpi-local-args", to.mpi_local_args,
                 "more options for mpirun, placed after those of --mpi-global-args")
      ->type_name("ARGS")
      ->group(group);
  app.add_flag("--host-check-only", to.parsed.host_check_only,
               "check all hosts, print the result and exit")
      ->group(group)
      ->configurable(false);
}

void add_bind_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option(
         "--bind", to.bind,
         "bind instances to the cores of their devices; auto: if each stage has its own device; "
         "core: always; numa: to whole NUMA nodes")
      ->check(CLI::IsMember(names_of(kBindPolicies)))
      ->type_name("POLICY")
      ->group(group)
      ->capture_default_str();
  app.add_option("--transport", to.transport,
                 "transport of collectives: shm between processes of one host, local within one "
                 "process, tcp between hosts, mpi between hosts if mpirun starts the job and "
                 "--max-restarts is 0; auto chooses")
      ->check(CLI::IsMember({"auto", "local", "mpi", "shm", "tcp"}))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
}

void add_console_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option(
         "--tag-output", to.tags,
         "tag of each output line; auto: [i] if there are several instances; mpi: "
         "[1,i]<stdout>:; without a tag, the bytes of a single instance pass unchanged to a "
         "terminal, and with never to any output")
      ->check(CLI::IsMember(names_of(kTagStyles)))
      ->type_name("STYLE")
      ->group(group)
      ->capture_default_str();
  app.add_option("--only-output-from-instance", to.parsed.console.only_instance,
                 "show only the output of instance I; failures of all instances are reported")
      ->type_name("I")
      ->group(group);
  app.add_option("--dashboard", to.dashboard,
                 fmt::format("serve a page about the running job on this machine; 0: on a free "
                             "port [{}]",
                             kUsualDashboardPort))
      ->expected(0, 1)
      ->default_str(std::to_string(kUsualDashboardPort))
      ->option_text("[PORT]")
      ->group(group);
  app.add_flag("-v,--verbose", to.verbose, "print the processes that are started and their hosts")
      ->group(group);
  app.add_flag("-q,--quiet", to.quiet, "print only errors and warnings")->group(group);
}

void add_failure_options(CLI::App& app, LaunchArguments& to, const std::string& group) {
  app.add_option(
         "--max-restarts", to.parsed.run.max_restarts,
         "restart a failed job at most N times; a training continues from its state in memory")
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_flag(
         "--shrink", to.parsed.run.shrink,
         "if an instance fails twice in a row, continue without it and its cores, with the same "
         "replicas; only for jobs on this machine")
      ->group(group);
  app.add_option_function<double>(
         "--stall-timeout",
         [&](double seconds) { to.parsed.run.stall_timeout = events::Seconds(seconds); },
         "time after which a late or stopped instance counts as failed; 0: never [60]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option_function<double>(
         "--grace-period",
         [&](double seconds) { to.parsed.run.grace_period = events::Seconds(seconds); },
         "time between SIGTERM and SIGKILL [5; 30 if train writes checkpoints]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option(
         "--chaos", to.chaos,
         "kill, stop or slow random instances, SECONDS apart on average [10], to test recovery; "
         "the same SEED does the same; only for jobs on this machine")
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
