#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/host/member.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm::hosts {

/// What the leader of a host tells the others of the operation that its host has begun, in front of
/// the first data. Plain bytes: all hosts run the same build.
struct Call {
  static constexpr std::uint64_t kIsThere = 0x4c4b535443414c4c;
  static constexpr std::size_t kMostNodes = 16;

  std::uint64_t operation = 0;  ///< its number
  Signature signature{};
  std::array<char, 160> name{};  ///< of the instance that says it
  /// Of nodes that are brought; where there are more, they follow.
  std::int32_t num_nodes = 0;
  std::array<TreeNode, kMostNodes> nodes{};
  std::uint64_t is_there = 0;  ///< last, so that it says whether all has arrived

  bool has_arrived() const noexcept { return is_there == kIsThere; }
};

Call call_of(const Operation& operation, std::uint64_t number, const std::string& name);

/// Ends the job where calls, as far as they have arrived, differ from the first.
void compare(std::span<const Call> calls, host::Member& member);

}  // namespace lockstep::comm::hosts
