#include "lockstep/launch/discover/host_discovery.h"

#include <unistd.h>

#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::launch {

std::string this_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw io_error("gethostname");
  return name.data();
}

std::string name_of_this_host(const topology::Identity& identity) {
  const auto host = static_cast<std::size_t>(identity.host);
  return host < identity.hosts.size() ? identity.hosts[host].name : this_host();
}

bool is_same_host(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto short_name = [](const std::string& full) { return full.substr(0, full.find('.')); };
  const bool one_is_short = a == short_name(a) || b == short_name(b);
  return one_is_short && short_name(a) == short_name(b);
}

bool is_this_host(const std::string& name) {
  return name == "localhost" || name == "127.0.0.1" || is_same_host(name, this_host());
}

bool is_this_host(const std::string& name, const topology::Environment& environment) {
  return environment.get("SLURMD_NODENAME") == name || is_this_host(name);
}

std::vector<topology::Host> discover_hosts(const std::string& host_list,
                                           const std::string& hostfile) {
  if (!host_list.empty() && !hostfile.empty()) {
    throw Error(ErrorKind::Options, "run: expected --host or --hostfile, found both",
                "keep one of them");
  }
  if (!host_list.empty()) return topology::parse_host_list(host_list);
  if (!hostfile.empty()) return topology::parse_hostfile(read_file(hostfile), hostfile);
  return {{this_host(), std::nullopt}};
}

}  // namespace lockstep::launch
