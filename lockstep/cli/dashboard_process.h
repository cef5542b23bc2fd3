#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "lockstep/cli/run_arguments.h"
#include "lockstep/launch/supervise/signals.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

inline constexpr const char* kDashboardProgram = "lockstep-dashboard";
/// What the dashboard says first, before its address.
inline constexpr const char* kDashboardGreeting = "dashboard: ";

/// A dashboard that the launcher starts for its job: a program of its own, since a web server loads
/// what the launcher can do without. It is in a process group of its own, and ends with the thread
/// that made it, or when this is destroyed.
///
/// Errors: `Unavailable` where the program is missing; `Timeout` where it does not say in time that
/// it serves; that of the dashboard where it could not serve, of which it has told.
class DashboardProcess {
 public:
  /// Waits until it serves. A signal that ends jobs ends this process: there is none to end yet.
  DashboardProcess(int port, const std::string& job, const topology::Environment& environment,
                   launch::Signals& signals);
  ~DashboardProcess();
  DashboardProcess(const DashboardProcess&) = delete;
  DashboardProcess& operator=(const DashboardProcess&) = delete;

  const std::string& url() const noexcept { return url_; }

 private:
  void end() noexcept;

  pid_t pid_ = -1;
  std::string url_;
};

/// The dashboard that `--dashboard` asks for, if it does. Says where it is on standard error, since
/// standard output is the program's.
std::unique_ptr<DashboardProcess> start_dashboard(const RunArguments& arguments,
                                                  const std::string& job,
                                                  const topology::Environment& environment,
                                                  launch::Signals& signals);

}  // namespace lockstep::cli
