#pragma once

namespace lockstep {

/// The hardware threads that this process may run on; at least 1.
int owned_cores() noexcept;

}  // namespace lockstep
