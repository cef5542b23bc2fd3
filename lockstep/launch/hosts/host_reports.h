#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace lockstep::launch {

/// "host-3.json": what the report of a host is called in the folder of its job.
std::string host_report_name(int host);
bool is_host_report_name(std::string_view name);

/// What agents tell of their hosts, for those who watch the job: a file for each host, in the
/// folder of the job. Its time is when the host was last heard of.
///
/// Nothing that goes wrong here ends a job: a report that cannot be written is not there.
class HostReports {
 public:
  explicit HostReports(std::string folder) : folder_(std::move(folder)) {}

  /// Readers see the report before or this one, never a part.
  void write(int host, const std::string& report) const noexcept;
  void remove(int host) const noexcept;

 private:
  std::string path_of(int host) const;

  std::string folder_;
};

}  // namespace lockstep::launch
