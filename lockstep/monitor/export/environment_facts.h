#pragma once

#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/monitor/export/html_report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::monitor {

/// The version of this build, its compiler, and the libraries that it was built with.
LOCKSTEP_PRIVATE_API std::vector<ReportFact> build_facts();

/// This host, its processor, and the cores and the memory that this process may use.
LOCKSTEP_PRIVATE_API std::vector<ReportFact> machine_facts();

/// Environment variables of libraries that change the bits of the weights. Variables that are not
/// set are left out.
LOCKSTEP_PRIVATE_API std::vector<ReportFact> library_facts(
    const topology::Environment& environment);

/// The command line of this process, as a user types it in a shell; empty if it is unknown.
LOCKSTEP_PRIVATE_API std::string command_of_this_process();

}  // namespace lockstep::monitor
