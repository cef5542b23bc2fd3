#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/base/file.h"

namespace lockstep::comm::tcp {

/// An address of the internet, of either version, with a port.
class SocketAddress {
 public:
  /// Errors: `Options` where `address` is not one in numbers.
  SocketAddress(const std::string& address, int port);

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const noexcept { return size_; }
  int family() const noexcept { return storage_.ss_family; }
  /// "10.0.0.2:4711", "[fe80::1%eth0]:4711"
  const std::string& text() const noexcept { return text_; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
  std::string text_;
};

/// A socket that listens at this address alone; port 0 lets the kernel choose one. It does not
/// wait in any call, and is closed on exec.
/// Errors: `Io`, naming the address.
UniqueFd listen_at(const SocketAddress& address);

/// The port that a socket is bound to; 0 where it is none.
int port_of(int socket) noexcept;

/// Makes a connection one that never waits, neither in a call nor for more to send.
void make_prompt(int socket) noexcept;

/// Sends a few bytes without waiting. Returns false if the connection does not accept all of them
/// at once. The send buffer of a new connection always has room for a handshake.
bool send_at_once(int socket, std::span<const std::byte> bytes) noexcept;

/// Whether the last call failed only because it would have had to wait.
bool would_wait() noexcept;

}  // namespace lockstep::comm::tcp
