#include "lockstep/comm/hosts/call.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::comm::hosts {

Call call_of(const Operation& operation, std::uint64_t number, const std::string& name) {
  Call call;
  call.operation = number;
  call.signature = signature_of(operation);
  name.copy(call.name.data(), call.name.size() - 1);
  call.num_nodes = static_cast<std::int32_t>(operation.nodes.size());
  std::copy_n(operation.nodes.begin(), std::min(operation.nodes.size(), Call::kMostNodes),
              call.nodes.begin());
  call.is_there = Call::kIsThere;
  return call;
}

void compare(std::span<const Call> calls, host::Member& member) {
  const auto first = std::ranges::find_if(calls, &Call::has_arrived);
  const auto other = std::find_if(first, calls.end(), [&](const Call& call) {
    return call.has_arrived() &&
           (call.signature != first->signature || call.operation != first->operation);
  });
  if (other == calls.end()) return;
  member.fail(Error(ErrorKind::Options,
                    fmt::format("collective #{}: instances disagree: {} called {}, {} called {}",
                                first->operation, first->name.data(), describe(first->signature),
                                other->name.data(), describe(other->signature)),
                    "all instances of a group must call the same collectives in the same order"));
}

}  // namespace lockstep::comm::hosts
