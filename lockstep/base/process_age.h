#pragma once

namespace lockstep {

/// Seconds since this process was started, loading of its libraries included; to a hundredth.
double process_age();

}  // namespace lockstep
