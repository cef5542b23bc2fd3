#include "lockstep/cli/host_table.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

using launch::HostReport;

std::string verdict(const std::string& problem) {
  return problem.empty() ? "ok" : "no";
}

std::string describe_clock(const HostReport& report) {
  return report.clock_ahead ? fmt::format("{:+.1f} s", *report.clock_ahead) : "-";
}

std::vector<std::string> row_of(const HostReport& report) {
  const auto address = report.address.empty() ? "-" : report.address;
  if (!report.reach_problem.empty()) return {report.name, address, "no", "-", "-", "-", "-"};
  if (!report.build_problem.empty()) {
    return {report.name, address, "ok", "no", "-", describe_clock(report), "-"};
  }
  const bool has_routes = report.route_problems.empty() && report.agent_problem.empty();
  return {report.name,
          address,
          "ok",
          "ok",
          verdict(report.program_problem),
          describe_clock(report),
          has_routes ? "ok" : "no"};
}

std::string problems_of(const HostReport& report) {
  std::string text;
  const auto add = [&](const std::string& problem) {
    if (!problem.empty()) text += fmt::format("{}: {}\n", report.name, problem);
  };
  add(report.reach_problem);
  add(report.build_problem);
  add(report.program_problem);
  add(report.agent_problem);
  for (const auto& problem : report.route_problems) add(problem);
  if (report.has_clock_skew()) {
    add(fmt::format("its clock is {:.1f} s {} this one's, expected at most {:.0f} s",
                    std::abs(*report.clock_ahead), *report.clock_ahead > 0 ? "ahead of" : "behind",
                    launch::kClockTolerance));
  }
  return text;
}

}  // namespace

std::string host_table(std::span<const HostReport> reports) {
  ui::Table table({"host", "address", "reached", "lockstep", "program", "clock", "routes"});
  std::string problems;
  for (const auto& report : reports) {
    table.add(row_of(report));
    problems += problems_of(report);
  }
  return table.to_string() + (problems.empty() ? "" : "\n") + problems;
}

}  // namespace lockstep::cli
