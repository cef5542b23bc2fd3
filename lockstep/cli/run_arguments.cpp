#include "lockstep/cli/run_arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/dashboard_port.h"
#include "lockstep/cli/launch_arguments.h"

namespace lockstep::cli {
namespace {

/// The launch options, which `train` also has, and the options that only `run` has.
struct WrittenArguments {
  LaunchArguments launch;
  std::string export_config;
};

constexpr const char* kFooter =
    "The launcher sets LOCKSTEP_* variables for each instance, and RANK, WORLD_SIZE, LOCAL_RANK,\n"
    "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for torch.distributed.\n"
    "\n"
    "Instance 0 reads standard input if standard input is a file or a pipe. The other instances\n"
    "read nothing. If agents run the job (on other hosts, or with --launcher), no instance reads\n"
    "standard input.\n"
    "\n"
    "Ctrl-C and SIGTERM end the job: the launcher sends SIGTERM and, after the grace period,\n"
    "SIGKILL. A second signal kills the job immediately. The launcher forwards SIGUSR1 and "
    "SIGUSR2\n"
    "to every instance.\n"
    "\n"
    "Exit code: the code of the first instance that failed, or 128+n for signal n; 126 or 127 if\n"
    "the program cannot be executed or was not found; 2 for a wrong option; 4 if a host fails a\n"
    "check; 6 or 7 if a host is lost; 75 if all instances ended with 0 or 75, and at least one\n"
    "with 75.\n"
    "\n"
    "Example: lockstep run --num-replicas 8 --num-instances 4 ./train --epochs 5\n";

void add_size_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Size";
  auto& run = to.launch.parsed.run;
  app.add_option("--num-replicas", run.num_replicas, "replicas of the whole job [one per instance]")
      ->type_name("R")
      ->group(group);
  add_stage_options(app, to.launch, group);
  add_size_options(app, to.launch, group);
}

void add_place_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Place";
  auto& parsed = to.launch.parsed;
  add_host_options(app, to.launch, group);
  add_bind_options(app, to.launch, group);
  app.add_flag("--print-topology", parsed.print_topology,
               "show hosts, instances, replicas, devices and cores")
      ->group(group);
  app.add_flag("--dry-run", parsed.dry_run, "show the same table and exit")
      ->group(group)
      ->configurable(false);
}

void add_output_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Output";
  app.add_option("--log-dir", to.launch.parsed.run.log_dir,
                 "also write each output stream to DIR/instance-I.stdout and .stderr, and the "
                 "events of the job to DIR/events.jsonl")
      ->type_name("DIR")
      ->group(group);
  add_console_options(app, to.launch, group);
}

void add_file_options(CLI::App& app, WrittenArguments& to) {
  const auto* group = "Settings";
  app.add_option("--cache-path,--executable-cache-path", to.launch.parsed.run.cache_path,
                 "folder for the packs and plans of programs")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--env", to.launch.parsed.run.environment,
                 "set a variable for every instance; repeatable")
      ->type_name("NAME=VALUE")
      ->group(group)
      ->allow_extra_args(false);
  app.set_config("--config", "",
                 "read options from a file; options of the command line override them")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--export-config", to.export_config, "write the given options to a file")
      ->type_name("FILE")
      ->group(group)
      ->configurable(false);
  app.allow_config_extras(CLI::config_extras_mode::error);
}

/// Takes the command from behind the options. An unknown option must not pass for a program.
void take_command(const CLI::App& app, const std::vector<std::string>& all,
                  launch::RunOptions& to) {
  // As they were written: the program may have a --dashboard of its own.
  to.command.assign(all.end() - std::ssize(app.remaining()), all.end());
  if (to.command.empty()) return;
  const auto before = all.size() - to.command.size();
  const bool behind_dashes = before > 0 && all[before - 1] == "--";
  if (to.command.front() == "--") {
    to.command.erase(to.command.begin());
  } else if (to.command.front().starts_with('-') && !behind_dashes) {
    refuse_unknown_option(app, to.command.front());
  }
}

void check_command(const RunArguments& arguments) {
  if (!arguments.run.command.empty() || arguments.dry_run || arguments.host_check_only) return;
  throw Error(ErrorKind::Options, "run: expected a program to start, found none",
              "lockstep run --num-instances 4 hostname");
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
  CLI::App app("Starts a program in many instances, on one host or several, and supervises them.",
               "run");
  set_usage(app, "run [options] [--] program [arguments...]");
  app.footer(kFooter);
  app.prefix_command();
  add_size_options(app, written);
  add_place_options(app, written);
  add_output_options(app, written);
  add_failure_options(app, written.launch, "Failure");
  add_file_options(app, written);
  if (parse(app, with_usual_port(arguments)) == Parsed::HelpShown) return std::nullopt;
  take_command(app, arguments, written.launch.parsed.run);
  check_command(written.launch.parsed);
  auto decided = decide("run", std::move(written.launch));
  if (!written.export_config.empty()) export_config(app, written.export_config);
  return decided;
}

}  // namespace lockstep::cli
