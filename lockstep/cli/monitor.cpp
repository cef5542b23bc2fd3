#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/monitor_tables.h"
#include "lockstep/cli/monitor_watch.h"
#include "lockstep/cli/suggested_words.h"
#include "lockstep/monitor/devices/host_sampler.h"
#include "lockstep/monitor/devices/snapshot_json.h"
#include "lockstep/ui/output_channel.h"

namespace lockstep::cli {
namespace {

/// Between the two looks that a load is measured from, where nobody watches for longer.
constexpr std::chrono::milliseconds kFirstLook{250};
constexpr int kUsualWidth = 80;

struct MonitorArguments {
  bool watch = false;
  bool json = false;
  std::string job{};
  std::string order = "job";
  double interval_seconds = 1;
};

void define(CLI::App& app, MonitorArguments& arguments) {
  app.add_flag("-w,--watch", arguments.watch,
               "update the tables continuously; keys: q quit, s sort, j job");
  app.add_flag("--json", arguments.json, "print all values as one JSON object instead of tables");
  app.add_option("--job", arguments.job, "show only this job; the beginning of its ID is enough")
      ->type_name("ID");
  app.add_option("--sort", arguments.order,
                 "order of the processes: job, cpu, memory, samples, time; default job")
      ->check(suggest(process_order_names()))
      ->type_name("NAME");
  app.add_option("--interval", arguments.interval_seconds,
                 "with --watch: seconds between two updates; default 1")
      ->type_name("SECONDS");
  app.footer(
      "The first table lists the devices: the cores of this machine, the groups of cores that\n"
      "jobs use, and the NVIDIA GPUs if their driver is installed. The second table lists the\n"
      "instances of your jobs on this machine. For root, it lists the jobs of all users. The\n"
      "machine on which a job was started shows all hosts of the job. If the terminal is too\n"
      "narrow, the least important columns are left out. --json contains all values.\n");
}

void check(const CLI::App& app, const MonitorArguments& arguments) {
  check_choice("monitor: --sort", arguments.order, process_order_names());
  if (arguments.watch && arguments.json) {
    throw Error(ErrorKind::Options,
                "monitor: expected --watch, which is for people, or --json, which is for programs, "
                "found both",
                "lockstep monitor --json");
  }
  const auto seconds = arguments.interval_seconds;
  if (!(seconds >= 0.1 && seconds <= 3600)) {
    throw Error(ErrorKind::Options,
                fmt::format("monitor: --interval: expected 0.1 to 3600 seconds, found {}", seconds),
                "--interval 1");
  }
  if (app.count("--interval") > 0 && !arguments.watch) {
    throw Error(ErrorKind::Options,
                "monitor: --interval is the time from one look to the next, expected --watch "
                "beside it, found none",
                "lockstep monitor --watch --interval 1");
  }
  if (app.count("--job") > 0 && arguments.job.empty()) {
    throw Error(ErrorKind::Options, "monitor: --job: expected the name of a job, found ''",
                "lockstep monitor, which lists them");
  }
}

/// Where a job was asked for, it has to be there, and only one.
void check_job(const monitor::HostSnapshot& snapshot, const std::string& wanted) {
  if (wanted.empty()) return;
  std::vector<std::string> all;
  std::vector<std::string> matching;
  for (const auto& job : snapshot.jobs) {
    all.push_back(job.id);
    if (job.id.starts_with(wanted)) matching.push_back(job.id);
  }
  if (matching.size() == 1 || std::ranges::find(matching, wanted) != matching.end()) return;
  if (!matching.empty()) {
    throw Error(ErrorKind::Options,
                fmt::format("monitor: --job: expected the beginning of one job's name, found '{}', "
                            "with which {} begin",
                            wanted, matching.size()),
                "--job " + matching.front());
  }
  if (all.empty()) {
    throw Error(ErrorKind::Options,
                fmt::format("monitor: --job: expected a job that runs here, and there is none, "
                            "found '{}'",
                            wanted),
                "start one: lockstep train, or lockstep run");
  }
  throw Error(
      ErrorKind::Options,
      fmt::format("monitor: --job: expected one of {}, found '{}'", fmt::join(all, ", "), wanted),
      "--job " + closest(wanted, all).value_or(all.front()));
}

/// The terminal's, or what a shell says of it; 80 where nobody knows.
std::size_t output_width(const topology::Environment& environment) {
  constexpr std::int64_t kNarrowest = 40;
  constexpr std::int64_t kWidest = 1000;
  if (const auto width = ui::terminal_width(STDOUT_FILENO)) return static_cast<std::size_t>(*width);
  const auto columns = parse_integer(environment.get("COLUMNS").value_or("")).value_or(kUsualWidth);
  return static_cast<std::size_t>(std::clamp(columns, kNarrowest, kWidest));
}

}  // namespace

int monitor(const Invocation& invocation) {
  CLI::App app("Shows the devices of this machine and the jobs that use them.", "monitor");
  set_usage(app, "monitor [--watch] [--json] [--job ID]");
  MonitorArguments arguments;
  define(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  check(app, arguments);

  const auto order = parse_process_order(arguments.order).value_or(ProcessOrder::Job);
  monitor::HostSampler sampler(invocation.environment);
  auto snapshot = sampler.sample();
  check_job(snapshot, arguments.job);
  if (arguments.watch) {
    const std::chrono::duration<double> interval(arguments.interval_seconds);
    return watch(sampler, {.interval = std::chrono::ceil<std::chrono::milliseconds>(interval),
                           .order = order,
                           .job = arguments.job});
  }
  std::this_thread::sleep_for(kFirstLook);
  snapshot = sampler.sample();
  keep_job(snapshot, arguments.job);
  const auto text =
      arguments.json
          ? monitor::to_json(snapshot)
          : monitor_text(snapshot, {.width = output_width(invocation.environment), .order = order});
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace lockstep::cli
