#include "lockstep/comm/tcp/handshake.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace lockstep::comm::tcp {
namespace {

constexpr std::string_view kMagic = "lockstp1";
constexpr std::string_view kServer = "lockstep server";
constexpr std::string_view kClient = "lockstep client";
constexpr std::size_t kHelloBytes = kMagic.size() + kNonceBytes;
constexpr std::size_t kAnswerBytes = kNonceBytes + std::tuple_size_v<Payload> + kMacBytes;

static_assert(kMacBytes == crypto_auth_BYTES && Secret::kBytes == crypto_auth_KEYBYTES);
static_assert(kServer.size() == kClient.size());

template <typename Array>
void copy_from(std::span<const std::byte>& bytes, Array& target) {
  std::memcpy(target.data(), bytes.data(), target.size());
  bytes = bytes.subspan(target.size());
}

bool is_same(const Mac& expected, std::span<const std::byte> found) {
  return ::sodium_memcmp(expected.data(), found.data(), expected.size()) == 0;
}

}  // namespace

Handshake::Handshake(const Secret& secret, std::size_t first_message)
    : secret_(secret), expected_(first_message) {}

std::size_t Handshake::wanted() const noexcept {
  return state_ == HandshakeState::Waiting ? expected_ - received_.size() : 0;
}

void Handshake::feed(std::span<const std::byte> bytes) {
  const auto taken = bytes.first(std::min(bytes.size(), wanted()));
  received_.insert(received_.end(), taken.begin(), taken.end());
  if (state_ != HandshakeState::Waiting || received_.empty() || received_.size() < expected_)
    return;
  const auto message = std::exchange(received_, {});
  expected_ = 0;
  on_message(message);
}

std::vector<std::byte> Handshake::take_output() {
  return std::exchange(output_, {});
}

void Handshake::send(std::span<const std::byte> bytes) {
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

Mac Handshake::mac_of(std::string_view role) const {
  std::array<unsigned char, kServer.size() + 2 * kNonceBytes + std::tuple_size_v<Payload>> text;
  auto* end = text.data();
  const auto add = [&](const auto& part) {
    std::memcpy(end, part.data(), part.size());
    end += part.size();
  };
  add(role);
  add(server_nonce_);
  add(client_nonce_);
  add(payload_);
  Mac mac;
  ::crypto_auth(mac.data(), text.data(), text.size(), secret_.data());
  return mac;
}

ServerHandshake::ServerHandshake(const Secret& secret) : Handshake(secret, kAnswerBytes) {
  ::randombytes_buf(server_nonce_.data(), server_nonce_.size());
  send(std::as_bytes(std::span(kMagic)));
  send(server_nonce_);
}

void ServerHandshake::on_message(std::span<const std::byte> message) {
  if (is_client_proven_) return end(HandshakeState::Done);  // the last byte
  copy_from(message, client_nonce_);
  copy_from(message, payload_);
  if (!is_same(mac_of(kClient), message)) return end(HandshakeState::Refused);
  is_client_proven_ = true;
}

void ServerHandshake::accept() {
  send(mac_of(kServer));
  expect(1);
}

ClientHandshake::ClientHandshake(const Secret& secret, const Payload& payload)
    : Handshake(secret, kHelloBytes) {
  payload_ = payload;
  ::randombytes_buf(client_nonce_.data(), client_nonce_.size());
}

void ClientHandshake::on_message(std::span<const std::byte> message) {
  if (has_answered_) {
    const bool is_good = is_same(mac_of(kServer), message);
    if (is_good) send(std::as_bytes(std::span("!", 1)));
    return end(is_good ? HandshakeState::Done : HandshakeState::Refused);
  }
  if (std::memcmp(message.data(), kMagic.data(), kMagic.size()) != 0) {
    return end(HandshakeState::Refused);
  }
  message = message.subspan(kMagic.size());
  copy_from(message, server_nonce_);
  send(client_nonce_);
  send(payload_);
  send(mac_of(kClient));
  has_answered_ = true;
  expect(kMacBytes);
}

}  // namespace lockstep::comm::tcp
