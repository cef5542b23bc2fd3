#include "lockstep/launch/hosts/host_reports.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "lockstep/base/file.h"

namespace lockstep::launch {

std::string host_report_name(int host) {
  return fmt::format("host-{}.json", host);
}

bool is_host_report_name(std::string_view name) {
  return name.starts_with("host-") && name.ends_with(".json");
}

std::string HostReports::path_of(int host) const {
  return folder_ + "/" + host_report_name(host);
}

void HostReports::write(int host, const std::string& report) const noexcept {
  try {
    const auto path = path_of(host);
    const auto unfinished = path + ".new";
    write_file(unfinished, report);
    if (std::rename(unfinished.c_str(), path.c_str()) != 0) ::unlink(unfinished.c_str());
  } catch (const std::exception&) {
    // A full disk, say: then nobody sees that host.
  }
}

void HostReports::remove(int host) const noexcept {
  try {
    ::unlink(path_of(host).c_str());
  } catch (const std::exception&) {
    // Too little memory for a name; it gets old, and says so.
  }
}

}  // namespace lockstep::launch
