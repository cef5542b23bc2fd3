#pragma once

#include <string>

#include "lockstep/base/file.h"

namespace lockstep::monitor {

/// A socket that listens, without blocking, and the port that it got.
struct ListenSocket {
  UniqueFd fd;
  int port = 0;
};

/// Errors: `Options` for an address that is none, or a port out of range; `Io` where it cannot be
/// used.
ListenSocket listen_at(const std::string& address, int port);

}  // namespace lockstep::monitor
