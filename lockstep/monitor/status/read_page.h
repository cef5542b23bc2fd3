#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "lockstep/monitor/status/instance_status.h"

namespace lockstep::monitor {

/// What a status page says.
struct PageContent {
  InstanceFacts facts;
  InstanceState state;
};

/// Why a page cannot be used, in words for a table: "cut short: 100 of 4096 bytes".
class BadPage : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads a page while its instance goes on writing: always one update as a whole, never parts of
/// two. Nothing in it is believed before it is checked; texts come out as UTF-8 without control
/// characters, whatever they were.
///
/// Throws `BadPage`.
PageContent read_page(int file);

}  // namespace lockstep::monitor
