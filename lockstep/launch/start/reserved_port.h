#pragma once

#include "lockstep/base/file.h"

namespace lockstep::launch {

/// A TCP port that no other job on this host is given while this object lives.
///
/// The port stays bound, but never listens. The kernel hands it to nobody who asks for any free
/// port, yet lets a program of the job bind it by number, because both set SO_REUSEADDR, as every
/// server does. So there is no moment in which another job could take it.
class ReservedPort {
 public:
  /// Throws `Io` where no port is left.
  ReservedPort();

  int port() const noexcept { return port_; }

 private:
  UniqueFd socket_;
  int port_ = 0;
};

}  // namespace lockstep::launch
