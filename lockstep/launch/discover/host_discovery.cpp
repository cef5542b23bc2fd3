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

bool is_this_host(const std::string& name) {
  const auto own = this_host();
  const auto short_name = [](const std::string& full) { return full.substr(0, full.find('.')); };
  if (name == "localhost" || name == "127.0.0.1" || name == own) return true;
  const bool one_is_short = name == short_name(name) || own == short_name(own);
  return one_is_short && short_name(name) == short_name(own);
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
