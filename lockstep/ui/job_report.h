#pragma once

#include <string>

#include "lockstep/events/job_summary.h"

namespace lockstep::ui {

/// What a job has been through, in a line or two; empty where nothing is worth telling.
std::string describe(const events::JobSummary& summary);

}  // namespace lockstep::ui
