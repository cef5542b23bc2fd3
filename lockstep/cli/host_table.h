#pragma once

#include <span>
#include <string>

#include "lockstep/launch/hosts/host_check.h"

namespace lockstep::cli {

/// What was found on each host, and below it what is wrong where.
std::string host_table(std::span<const launch::HostReport> reports);

}  // namespace lockstep::cli
