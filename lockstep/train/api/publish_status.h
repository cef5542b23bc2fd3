#pragma once

#include <memory>

#include "lockstep/monitor/status/status_publisher.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/planner/job_layout.h"

namespace lockstep::train {

/// A status page for this process, which computes what the layout says.
std::unique_ptr<monitor::StatusPublisher> publish_status(const Options& options,
                                                         const JobLayout& layout);

}  // namespace lockstep::train
