#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>

#include "lockstep/topology/environment.h"

namespace lockstep::cli {

inline constexpr const char* kDashboardProgram = "lockstep-dashboard";
/// What the dashboard says first, before its address.
inline constexpr const char* kDashboardGreeting = "dashboard: ";

/// A dashboard that the launcher starts for its job: a program of its own, since a web server loads
/// what the launcher can do without. It is in a process group of its own, and ends with the thread
/// that made it, or when this is destroyed.
///
/// Errors: `Unavailable` where the program is missing; that of the dashboard where it could not
/// serve, of which it has told.
class DashboardProcess {
 public:
  /// `mask` is of the signals that it is to have blocked.
  DashboardProcess(int port, const std::string& job, const topology::Environment& environment,
                   const sigset_t& mask);
  ~DashboardProcess();
  DashboardProcess(const DashboardProcess&) = delete;
  DashboardProcess& operator=(const DashboardProcess&) = delete;

  const std::string& url() const noexcept { return url_; }

 private:
  pid_t pid_ = -1;
  std::string url_;
};

}  // namespace lockstep::cli
