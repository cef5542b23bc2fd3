#pragma once

#include <string>

namespace lockstep {

/// "SIGKILL" for 9; "signal 77" for what has no name.
std::string signal_name(int signal);

}  // namespace lockstep
