#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/cli/run_arguments.h"
#include "lockstep/launch/supervise/signals.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

inline constexpr const char* kDashboardProgram = "lockstep-dashboard";
/// The words before the address that the dashboard prints.
inline constexpr const char* kDashboardGreeting = "dashboard: ";

/// The dashboard that the launcher starts for its job. It is a separate program, because a web
/// server loads libraries that the launcher does not need. It is in a process group of its own, and
/// is killed with the thread that started it, or when this object is destroyed.
///
/// Errors: `Unavailable` if the program is missing; `Timeout` if the dashboard does not print its
/// address in time; the dashboard's own kind of error if it fails, after it has printed the error.
class DashboardProcess {
 public:
  /// Waits until the dashboard serves. A signal that ends jobs ends this process, because no job
  /// runs yet.
  DashboardProcess(int port, const std::string& job, const topology::Environment& environment,
                   launch::Signals& signals);
  ~DashboardProcess();
  DashboardProcess(const DashboardProcess&) = delete;
  DashboardProcess& operator=(const DashboardProcess&) = delete;

  const std::string& url() const noexcept { return url_; }

  /// Asks the dashboard to show how the job ended and to exit, and waits at most 1.5 s, so
  /// that slow browsers do not delay the end of a job for longer. A child process may call it too.
  void finish() const noexcept;

 private:
  void end() noexcept;

  pid_t pid_ = -1;
  UniqueFd handle_;  ///< a pidfd: another process may get the number
  std::string url_;
};

/// Starts the dashboard if `--dashboard` is given. Prints its address to standard error, because
/// standard output belongs to the program.
std::unique_ptr<DashboardProcess> start_dashboard(const RunArguments& arguments,
                                                  const std::string& job,
                                                  const topology::Environment& environment,
                                                  launch::Signals& signals);

}  // namespace lockstep::cli
