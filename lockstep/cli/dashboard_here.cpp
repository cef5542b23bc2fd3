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
  app.add_option("--port", to.options.port, "port of the page; 0: a free port")
      ->check(whole_number())
      ->type_name("PORT")
      ->capture_default_str();
  app.add_option("--address", to.options.address,
                 "address to listen on; an address other than loopback requires a token; without "
                 "--token-file, lockstep then creates a token")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--name", to.options.names,
                 "name of this machine that browsers may use besides its address; repeatable")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--token-file", to.token_file,
                 "file with the token that browsers need in its first line, 16 to 128 letters and "
                 "digits; '-': standard input [none on loopback]")
      ->type_name("FILE");
  app.add_option("--job", to.job, "show only this job [all]")->type_name("ID");
  app.footer(
      "Shows the jobs of this machine in a browser until Ctrl-C or SIGTERM: their instances,\n"
      "curves, events, the slowest instance and the bottleneck. A job that has ended stays on the\n"
      "page, with its exit code and the cause of a failure. No request of a browser changes a job\n"
      "or reads a file. The page shows all hosts of a job on the machine where the job was "
      "started.\n"
      "\n"
      "Every user of this machine can open a page on loopback. Without a token, the page "
      "therefore\n"
      "shows only your own jobs. With a token, root sees the jobs of all users.\n"
      "\n"
      "Example: lockstep dashboard --port 8080\n");
}

/// Reads the token from a file, because all users can read command lines.
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

/// Blocks the signals before the server starts its threads, so that only this thread receives them.
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
  const auto server = monitor::serve_dashboard(feed, options);
  fmt::print("{}{}\n", kDashboardGreeting, server->url());
  if (std::fflush(stdout) != 0) throw io_error("standard output");
  int signal = 0;
  ::sigwait(&ends, &signal);
  return 0;
}

}  // namespace lockstep::cli
