#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"
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
  std::optional<std::string> token_file{};
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
  app.add_option("--token-file", to.token_file,
                 "a file whose first line browsers have to know, 16 to 128 letters and digits; "
                 "'-': standard input [none on loopback]")
      ->type_name("FILE");
  app.add_option("--job", to.job, "show one job alone [all]")->type_name("ID");
  app.footer(
      "Shows the jobs of this machine in a browser, until it is ended by Ctrl-C or SIGTERM: what\n"
      "they are made of, their curves, which instance is slowest and what holds them up. Nothing\n"
      "that a browser sends changes a job or reads a file. A job over several hosts is shown "
      "whole\n"
      "where it was started.\n"
      "\n"
      "Everybody who has an account on this machine can reach loopback. So without a token only\n"
      "jobs of your own are shown; root, who may look at all, sees those of others with one.\n"
      "\n"
      "Example: lockstep dashboard --port 8080\n");
}

/// From a file, since all users can read what stands on a command line.
std::string read_token(const std::string& file) {
  std::string text;
  if (file == "-") {
    std::getline(std::cin, text);
  } else {
    text = read_file(file);
  }
  const auto line = std::string_view(text).substr(0, text.find('\n'));
  return std::string(trim(line));
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
  set_usage(app, "dashboard [--port PORT] [--address ADDRESS] [--token-file FILE] [--job ID]");
  DashboardArguments arguments;
  define(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  auto& options = arguments.options;
  if (arguments.token_file) options.token = read_token(*arguments.token_file);
  const bool is_ours = options.address == "localhost" || monitor::is_loopback(options.address);
  if (!options.token && !is_ours) options.token = monitor::make_token();

  const auto ends = block_end_signals();
  monitor::StatusFeed feed(invocation.environment,
                           {.job = arguments.job, .shows_others = options.token.has_value()});
  const monitor::DashboardServer server(feed, options);
  fmt::print("{}{}\n", kDashboardGreeting, server.url());
  if (std::fflush(stdout) != 0) throw io_error("standard output");
  int signal = 0;
  ::sigwait(&ends, &signal);
  return 0;
}

}  // namespace lockstep::cli
