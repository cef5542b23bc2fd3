#include "lockstep/cli/run_arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"

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

template <typename Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

/// The arguments as they are written: names of choices, and flags that exclude each other.
struct WrittenArguments {
  RunArguments parsed;
  std::string bind = "auto";
  std::string transport = "auto";
  std::string tags = "auto";
  std::string export_config;
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

void add_size_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Size";
  app.add_option("--num-replicas", to.parsed.run.num_replicas,
                 "replicas of the whole job [one per instance]")
      ->type_name("R")
      ->group(group);
  app.add_option("--num-instances", to.parsed.run.num_instances,
                 "processes; earlier ones carry one replica more where R does not divide")
      ->type_name("I")
      ->group(group)
      ->capture_default_str();
  app.add_option("--devices-per-replica,--ipus-per-replica", to.parsed.run.devices_per_replica,
                 "stages of one replica, each on a device of its own")
      ->type_name("S")
      ->group(group)
      ->capture_default_str();
  app.add_option("--threads-per-device", to.parsed.run.threads_per_device,
                 "threads of each device; part of what results depend on "
                 "[cores of a host / most devices on any host]")
      ->type_name("T")
      ->group(group);
}

void add_place_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Place";
  app.add_option("-H,--host", to.parsed.run.host_list,
                 "hosts, as a,b:4,node[0-2,4]; b:4 takes at most 4 instances [this host]")
      ->type_name("LIST")
      ->group(group);
  app.add_option("--hostfile", to.parsed.run.hostfile, "the same from a file, one or more a line")
      ->type_name("FILE")
      ->group(group);
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
                 "single one; auto chooses")
      ->check(CLI::IsMember({"auto", "local", "shm"}))
      ->type_name("HOW")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--print-topology", to.parsed.print_topology,
               "show hosts, instances, replicas, devices and cores")
      ->group(group);
  app.add_flag("--dry-run", to.parsed.dry_run, "show that and stop")
      ->group(group)
      ->configurable(false);
}

void add_output_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Output";
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
  app.add_option("--log-dir", to.parsed.run.log_dir,
                 "also write each stream to DIR/instance-I.stdout and .stderr")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("-v,--verbose", to.verbose, "say what is started where")->group(group);
  app.add_flag("-q,--quiet", to.quiet, "say nothing but errors and warnings")->group(group);
}

void add_failure_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Failure";
  app.add_option("--max-restarts", to.parsed.run.max_restarts,
                 "start a failed job again, at most N times")
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_option_function<double>(
         "--stall-timeout",
         [&](double seconds) { to.parsed.run.stall_timeout = events::Seconds(seconds); },
         "when collectives give up on an instance that is late; 0 waits for ever [60]")
      ->type_name("SECONDS")
      ->group(group);
  app.add_option_function<double>(
         "--grace-period",
         [&](double seconds) { to.parsed.run.grace_period = events::Seconds(seconds); },
         "time between SIGTERM and SIGKILL [5]")
      ->type_name("SECONDS")
      ->group(group);
}

void add_file_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Settings";
  app.add_option("--cache-path,--executable-cache-path", to.parsed.run.cache_path,
                 "where programs keep their plans between runs")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--env", to.parsed.run.environment,
                 "set a variable for every instance; repeatable")
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
void take_command(const CLI::App& app, const std::vector<std::string>& all,
                  launch::RunOptions& to) {
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

void check(const WrittenArguments& arguments) {
  if (arguments.parsed.run.command.empty() && !arguments.parsed.dry_run) {
    throw Error(ErrorKind::Options, "run: expected a program to start, found none",
                "lockstep run --num-instances 4 hostname");
  }
  if (arguments.verbose && arguments.quiet) {
    throw Error(ErrorKind::Options, "run: expected --verbose or --quiet, found both");
  }
  const auto only = arguments.parsed.console.only_instance;
  if (only && (*only < 0 || *only >= arguments.parsed.run.num_instances)) {
    throw Error(ErrorKind::Options,
                fmt::format("run: --only-output-from-instance is {}, expected 0 to {}", *only,
                            arguments.parsed.run.num_instances - 1));
  }
}

/// Values that the file could not hold would be read back as others.
void export_config(const CLI::App& app, const std::string& file) {
  for (const auto* option : app.get_options()) {
    for (const auto& value : option->results()) {
      const bool has_both_quotes =
          value.find('\'') != std::string::npos && value.find('"') != std::string::npos;
      if (!has_both_quotes && value.find('\n') == std::string::npos) continue;
      throw Error(ErrorKind::Options,
                  fmt::format("run: --export-config: {} holds a line feed or both kinds of quotes, "
                              "which a config file cannot",
                              option->get_name()));
    }
  }
  write_file(file, app.config_to_str(false, false));
}

}  // namespace

std::optional<RunArguments> parse_run_arguments(const std::vector<std::string>& arguments) {
  WrittenArguments written;
  CLI::App app("Starts a program in many instances on this host and watches over them.", "run");
  set_usage(app, "run [options] [--] program [arguments...]");
  app.footer(kFooter);
  app.prefix_command();
  add_size_options(app, written);
  add_place_options(app, written);
  add_output_options(app, written);
  add_failure_options(app, written);
  add_file_options(app, written);
  if (parse(app, arguments) == Parsed::HelpShown) return std::nullopt;
  take_command(app, arguments, written.parsed.run);
  check(written);

  written.parsed.run.bind = kBindPolicies.at(written.bind);
  written.parsed.run.transport = *topology::parse_transport(written.transport);
  written.parsed.console.tags = kTagStyles.at(written.tags);
  written.parsed.console.num_instances = written.parsed.run.num_instances;
  if (written.verbose) written.parsed.console.verbosity = ui::Verbosity::Verbose;
  if (written.quiet) written.parsed.console.verbosity = ui::Verbosity::Quiet;
  if (!written.export_config.empty()) export_config(app, written.export_config);
  return std::move(written.parsed);
}

}  // namespace lockstep::cli
