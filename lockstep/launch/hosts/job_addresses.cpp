#include "lockstep/launch/hosts/job_addresses.h"

#include <algorithm>

namespace lockstep::launch {

using comm::tcp::is_loopback;

std::vector<std::string> listening_addresses(const std::vector<std::vector<std::string>>& hosts,
                                             const Way& way) {
  std::vector<std::string> own;
  const auto add = [&](const std::string& address) {
    const bool is_new = !address.empty() && std::ranges::find(own, address) == own.end();
    if (is_new) own.push_back(address);
    return !address.empty();
  };
  for (const auto& addresses : hosts) {
    for (const auto& address : addresses) {
      if (add(way(address))) break;
    }
  }
  // Slurm may know nodes by names that nobody else does: then by the way to anywhere.
  if (own.empty()) add(way("192.0.2.1"));
  if (own.empty()) add("127.0.0.1");
  std::ranges::stable_partition(own, [](const auto& address) { return !is_loopback(address); });
  return own;
}

std::vector<std::string> addresses_for_all(std::vector<std::string> known, const Way& way) {
  const auto is_reachable = [](const auto& address) {
    return !address.empty() && !is_loopback(address);
  };
  const auto is_known = [](const auto& address) { return !address.empty(); };
  auto other = std::ranges::find_if(known, is_reachable);
  const bool has_better = other != known.end();
  if (!has_better) other = std::ranges::find_if(known, is_known);
  const auto towards = other == known.end() ? std::string() : way(*other);
  for (auto& address : known) {
    if (has_better ? is_reachable(address) : is_known(address)) continue;
    if (!towards.empty()) address = towards;
    if (address.empty()) address = "127.0.0.1";
  }
  return known;
}

}  // namespace lockstep::launch
