#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/monitor/devices/host_sampler.h"

namespace lockstep::cli {

/// In what order `lockstep monitor` lists processes.
enum class ProcessOrder { Job, Cpu, Memory, Samples, Time };

/// "job", "cpu", "memory", "samples", "time".
std::string_view name_of(ProcessOrder order) noexcept;
/// All of them, in the order in which a key goes through them.
const std::vector<std::string>& process_order_names();
/// Nothing for other names.
std::optional<ProcessOrder> parse_process_order(std::string_view name);

/// What `lockstep monitor` shows, and in how many columns.
struct MonitorView {
  std::size_t width = 80;
  ProcessOrder order = ProcessOrder::Job;
};

/// The two tables, devices and processes, with a line above that says where and when, and lines
/// below for what has no place in them.
std::string monitor_text(const monitor::HostSnapshot& snapshot, const MonitorView& view);

}  // namespace lockstep::cli
