#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/monitor/export/html_report.h"

namespace lockstep::monitor {

/// Checks that a report can be written to this path, and writes nothing. A run that takes hours
/// must not end with a report that cannot be written. `where` begins the message: "train: --report
/// FILE". Errors: `Io`.
LOCKSTEP_PRIVATE_API void check_report_file(const std::string& where, const std::string& path);

/// Replaces the file with the page of the report. A reader sees the old file or the whole new one.
/// Errors: `Io`, naming `where`.
LOCKSTEP_PRIVATE_API void write_report(const std::string& where, const std::string& path,
                                       const RunReport& report);

/// The events in the log of the job (`events::EventLog`), in the order of the log. Returns nothing
/// if there is no log or it cannot be read, as on another host than the launcher's.
LOCKSTEP_PRIVATE_API std::vector<ReportEvent> events_of_job(
    const std::optional<std::string>& log_path);

}  // namespace lockstep::monitor
