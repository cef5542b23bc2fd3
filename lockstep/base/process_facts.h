#pragma once

#include <cstdint>

namespace lockstep {

/// Seconds since this process was started, loading of its libraries included; to a hundredth.
double process_age();

/// Bytes of memory that this process has for itself, and shares with no other.
std::int64_t private_memory();

/// Bytes that this machine, or the container that we are in, can still give. The largest number
/// there is where neither says.
std::uint64_t available_memory();

}  // namespace lockstep
