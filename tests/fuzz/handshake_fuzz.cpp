#include "lockstep/comm/tcp/handshake.h"
#include "tests/fuzz/fuzz_target.h"

/// Whoever does not know the secret comes nowhere, on neither side, however its bytes arrive.
LOCKSTEP_FUZZ_TARGET(file) {
  using namespace lockstep::comm::tcp;
  static const auto kSecret = Secret::random();
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  const auto step = bytes.empty() ? 1 : 1 + std::to_integer<std::size_t>(bytes.front());
  ServerHandshake server(kSecret);
  ClientHandshake client(kSecret, Payload{});
  for (std::size_t begin = 0; begin < bytes.size(); begin += step) {
    const auto piece = bytes.subspan(begin, std::min(step, bytes.size() - begin));
    server.feed(piece);
    client.feed(piece);
  }
  if (server.is_client_proven() || client.state() == HandshakeState::Done) {
    throw lockstep::Error(lockstep::ErrorKind::Bug, "handshake: a stranger got in");
  }
}
