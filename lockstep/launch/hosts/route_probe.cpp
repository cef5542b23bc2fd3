#include "lockstep/launch/hosts/route_probe.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "lockstep/comm/tcp/socket.h"

namespace lockstep::launch {

using comm::tcp::HandshakeState;

namespace {

constexpr std::chrono::milliseconds kPause{50};

}  // namespace

RouteProbe::RouteProbe(int host, const std::string& address, int port,
                       const comm::tcp::Secret& secret)
    : host_(host), to_(address, port), secret_(secret), handshake_(secret, kPayload) {
  connect();
}

void RouteProbe::connect() {
  next_try_.reset();
  handshake_ = comm::tcp::ClientHandshake(secret_, kPayload);
  unsent_.clear();
  is_connecting_ = true;
  socket_.reset(::socket(to_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_ || (::connect(socket_.get(), to_.get(), to_.size()) != 0 && errno != EINPROGRESS)) {
    fail(std::strerror(errno));
  }
}

pollfd RouteProbe::descriptor() const {
  const bool writes = is_connecting_ || !unsent_.empty();
  return {state_ == State::Waiting && !next_try_ ? socket_.get() : -1,
          static_cast<short>(writes ? POLLOUT : POLLIN), 0};
}

void RouteProbe::attend() {
  if (next_try_ && Clock::now() < *next_try_) return;
  if (next_try_) connect();
  if (state_ == State::Waiting && is_connecting_) finish_connecting();
  if (state_ == State::Waiting && !is_connecting_ && !next_try_) {
    write_some();
    read_some();
  }
  if (state_ == State::Waiting && !next_try_ && Clock::now() >= deadline_) {
    fail(is_connecting_ ? "no answer" : "whoever listens there says nothing");
  }
}

void RouteProbe::finish_connecting() {
  pollfd fd{socket_.get(), POLLOUT, 0};
  if (::poll(&fd, 1, 0) <= 0) return;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail(std::strerror(error));
  is_connecting_ = false;
}

void RouteProbe::read_some() {
  while (state_ == State::Waiting && !next_try_ && handshake_.wanted() > 0) {
    std::array<std::byte, 256> block;
    const auto wanted = std::min(handshake_.wanted(), block.size());
    const auto count = ::recv(socket_.get(), block.data(), wanted, 0);
    if (count < 0 && comm::tcp::would_wait()) return;
    if (count <= 0) return try_again_or_fail(count == 0 ? "it hung up" : std::strerror(errno));
    handshake_.feed(std::span(block).first(static_cast<std::size_t>(count)));
    if (handshake_.state() == HandshakeState::Refused) {
      return fail("whoever listens there does not know the job's secret");
    }
    write_some();
  }
  const bool is_done = handshake_.state() == HandshakeState::Done && unsent_.empty();
  if (is_done && !next_try_) state_ = State::Reached;
}

void RouteProbe::write_some() {
  for (const auto byte : handshake_.take_output()) unsent_.push_back(static_cast<char>(byte));
  while (!unsent_.empty()) {
    const auto count = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (count < 0 && comm::tcp::would_wait()) return;
    if (count < 0) return try_again_or_fail(std::strerror(errno));
    unsent_.erase(0, static_cast<std::size_t>(count));
  }
}

/// Whoever listens there has no place for all, and lets the oldest go that has not proven itself.
void RouteProbe::try_again_or_fail(std::string problem) {
  const auto next = Clock::now() + kPause;
  if (next >= deadline_) return fail(std::move(problem));
  socket_.reset();
  next_try_ = next;
}

void RouteProbe::fail(std::string problem) {
  state_ = State::Failed;
  problem_ = std::move(problem);
  socket_.reset();
}

}  // namespace lockstep::launch
