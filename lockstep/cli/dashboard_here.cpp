#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/dashboard_port.h"
#include "lockstep/cli/dashboard_process.h"
#include "lockstep/cli/whole_number.h"
#include "lockstep/monitor/status/status_feed.h"
#include "lockstep/monitor/web/access.h"
#include "lockstep/monitor/web/dashboard_server.h"

namespace lockstep::cli {
namespace {

struct DashboardArguments {
  monitor::DashboardOptions options;
  std::string job{};
  std::string token{};
};

void define(CLI::App& app, DashboardArguments& to) {
  to.options.port = kUsualDashboardPort;
  app.add_option("--port", to.options.port, "0: one that is free")
      ->check(whole_number())
      ->type_name("PORT")
      ->capture_default_str();
  app.add_option("--address", to.options.address,
                 "where it listens; another than loopback needs a token, one of which is made "
                 "where none is given")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--name", to.options.names,
                 "a name by which browsers may call this machine, beside its address; repeatable")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--token", to.token,
                 "what browsers have to know, 16 to 128 letters and digits [none on loopback]")
      ->type_name("WORD");
  app.add_option("--job", to.job, "show one job alone [all]")->type_name("ID");
  app.footer(
      "Shows the jobs of this machine in a browser, until it is ended by Ctrl-C or SIGTERM: what\n"
      "they are made of, their curves, which instance is slowest and what holds them up. Nothing\n"
      "that a browser sends changes a job or reads a file. A job over several hosts is shown "
      "whole\n"
      "where it was started.\n"
      "\n"
      "Example: lockstep dashboard --port 8080\n");
}

/// Blocked before the server's thread is there, so that they come to this one alone.
sigset_t block_end_signals() {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, signal);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  return ends;
}

}  // namespace

int dashboard_here(const Invocation& invocation) {
  CLI::App app("Shows the jobs of this machine in a browser.", "dashboard");
  set_usage(app, "dashboard [--port PORT] [--address ADDRESS] [--token WORD] [--job ID]");
  DashboardArguments arguments;
  define(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  auto& options = arguments.options;
  if (!arguments.token.empty()) options.token = arguments.token;
  const bool is_ours = options.address == "localhost" || monitor::is_loopback(options.address);
  if (!options.token && !is_ours) options.token = monitor::make_token();

  const auto ends = block_end_signals();
  monitor::StatusFeed feed(invocation.environment, arguments.job);
  const monitor::DashboardServer server(feed, options);
  fmt::print("{}{}\n", kDashboardGreeting, server.url());
  if (std::fflush(stdout) != 0) throw io_error("standard output");
  int signal = 0;
  ::sigwait(&ends, &signal);
  return 0;
}

}  // namespace lockstep::cli
