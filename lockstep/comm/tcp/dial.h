#pragma once

#include <chrono>
#include <functional>

#include "lockstep/base/file.h"
#include "lockstep/comm/tcp/handshake.h"
#include "lockstep/comm/tcp/socket.h"

namespace lockstep::comm::tcp {

/// Connects to a `Listener` of the same secret and says who this is. Returns a connection that does
/// not wait in any call; nothing where nobody is there, where it takes longer than the limit, or
/// where the other side does not know the secret or does not want this client. `meanwhile` is
/// called about every 100 ms, and may throw to give up.
UniqueFd dial(const SocketAddress& address, const Secret& secret, const Payload& payload,
              std::chrono::milliseconds limit, const std::function<void()>& meanwhile = {});

}  // namespace lockstep::comm::tcp
