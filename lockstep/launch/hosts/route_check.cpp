#include "lockstep/launch/hosts/route_check.h"

#include <fcntl.h>

#include <algorithm>

namespace lockstep::launch {

using comm::tcp::Payload;

RouteCheck::RouteCheck(int listener, const comm::tcp::Secret& secret,
                       const std::vector<Peer>& peers, int own_host)
    : listener_(
          UniqueFd(::fcntl(listener, F_DUPFD_CLOEXEC, 3)), secret,
          // An instance of a host that has started sooner is to come again, when there is one here.
          [](const Payload& payload) { return payload == RouteProbe::kPayload; },
          // That it came is all that was asked.
          [](UniqueFd, const Payload&) {}) {
  for (const auto& [host, address, port] : peers) {
    if (host != own_host) probes_.emplace_back(host, address, port, secret);
  }
}

std::vector<pollfd> RouteCheck::descriptors() const {
  std::vector<pollfd> fds{{listener_.descriptor(), POLLIN, 0}};
  for (const auto& probe : probes_) fds.push_back(probe.descriptor());
  return fds;
}

std::optional<RouteCheck::Clock::time_point> RouteCheck::next_time() const {
  std::optional<Clock::time_point> next;
  for (const auto& probe : probes_) {
    if (probe.state() != RouteProbe::State::Waiting) continue;
    next = std::min(next.value_or(probe.next_time()), probe.next_time());
  }
  return next;
}

void RouteCheck::attend() {
  listener_.serve(std::chrono::milliseconds(0));
  for (auto& probe : probes_) probe.attend();
}

bool RouteCheck::is_done() const {
  return std::ranges::none_of(
      probes_, [](const RouteProbe& probe) { return probe.state() == RouteProbe::State::Waiting; });
}

std::vector<RouteCheck::Failure> RouteCheck::failures() const {
  std::vector<Failure> failures;
  for (const auto& probe : probes_) {
    if (probe.state() == RouteProbe::State::Failed) {
      failures.push_back({probe.host(), probe.problem()});
    }
  }
  return failures;
}

}  // namespace lockstep::launch
