#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/place/job_plan.h"
#include "lockstep/ui/job_console.h"

namespace lockstep::cli {

/// All that `lockstep run` can be told.
struct RunArguments {
  launch::RunOptions run;
  ui::ConsoleOptions console;
  bool print_topology = false;
  bool dry_run = false;
  bool host_check_only = false;
  std::optional<int> dashboard_port{};  ///< 0: one that is free
};

/// Reads the arguments behind `lockstep run`, and writes them to a file where `--export-config`
/// asks for it. Nothing: the help was shown. Throws `Options`, or `Io` for the file.
std::optional<RunArguments> parse_run_arguments(const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
