#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/tcp/secret.h"

namespace lockstep::comm::tcp {

// How two processes that have a connection prove to each other that they know the job's secret:
//
//   server -> client   magic, the server's nonce
//   client -> server   the client's nonce, who it is, a MAC
//   server -> client   a MAC
//   client -> server   one byte: it has found the server's proof good
//
// The MACs are over the role, both nonces and who the client is, so that nothing that was seen on
// another connection is of any use. What follows is neither encrypted nor signed. Neither class
// does any input or output: both are fed with what has arrived, and say what to send.

/// Who a client is; what it means is between it and its server.
using Payload = std::array<std::byte, 64>;

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
using Nonce = std::array<unsigned char, kNonceBytes>;
using Mac = std::array<unsigned char, kMacBytes>;

enum class HandshakeState {
  Waiting,  ///< for more bytes
  Done,     ///< the other side knows the secret
  Refused,  ///< it does not: the connection is to be closed without a word
};

/// Takes a fixed number of bytes and never one more, so that what follows a handshake stays where
/// it is.
class Handshake {
 public:
  HandshakeState state() const noexcept { return state_; }
  /// How many bytes to read at most, and hand to `feed`.
  std::size_t wanted() const noexcept;
  void feed(std::span<const std::byte> bytes);
  /// What to send now, in front of what comes later. Each byte is returned once.
  std::vector<std::byte> take_output();

 protected:
  Handshake(const Secret& secret, std::size_t first_message);
  ~Handshake() = default;

  /// Called with a whole message: it says how long the next one is, or ends.
  virtual void on_message(std::span<const std::byte> message) = 0;

  void send(std::span<const std::byte> bytes);
  void send(std::span<const unsigned char> bytes) { send(std::as_bytes(bytes)); }
  void expect(std::size_t bytes) noexcept { expected_ = bytes; }
  void end(HandshakeState state) noexcept { state_ = state; }
  Mac mac_of(std::string_view role) const;

  Secret secret_;
  Nonce server_nonce_{};
  Nonce client_nonce_{};
  Payload payload_{};

 private:
  HandshakeState state_ = HandshakeState::Waiting;
  std::size_t expected_;
  std::vector<std::byte> received_;
  std::vector<std::byte> output_;
};

class ServerHandshake final : public Handshake {
 public:
  explicit ServerHandshake(const Secret& secret);

  /// Whether the client has shown that it knows the secret; the server has not yet answered.
  bool is_client_proven() const noexcept { return is_client_proven_; }
  /// Valid once the client has proven itself.
  const Payload& payload() const noexcept { return payload_; }
  /// Answers a client that has proven itself, and is welcome.
  void accept();

 private:
  void on_message(std::span<const std::byte> message) override;
  bool is_client_proven_ = false;
};

class ClientHandshake final : public Handshake {
 public:
  ClientHandshake(const Secret& secret, const Payload& payload);

 private:
  void on_message(std::span<const std::byte> message) override;
  bool has_answered_ = false;
};

}  // namespace lockstep::comm::tcp
