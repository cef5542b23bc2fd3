#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/comm/hosts/fabric.h"

namespace lockstep::comm::mpi {

/// The tag under which a rank wants what is sent to it on a fabric.
struct FabricTag {
  std::uint64_t fabric = 0;  ///< its id
  int tag = 0;
};

/// What ranks send each other beside data.
using ControlMessage = std::variant<hosts::Note, FabricTag>;

/// The longest of them; texts of an error are cut to fit.
constexpr std::size_t kLongestControlMessage = 16384;

std::string to_bytes(const ControlMessage& message);
/// The sender is not in the bytes: MPI knows its rank. A note has it in place of the host.
ControlMessage message_of(std::string_view bytes, int sender);

}  // namespace lockstep::comm::mpi
