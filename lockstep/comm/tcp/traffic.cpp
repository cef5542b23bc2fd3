#include "lockstep/comm/tcp/traffic.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/comm/tcp/socket.h"

namespace lockstep::comm::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPeerCheckInterval = 100ms;
/// A host that closes its connections has a reason, which may arrive a little later.
constexpr auto kTimeForReasons = 1s;
constexpr std::size_t kMostPieces = 64;

}  // namespace

std::span<iovec> Stream::next() noexcept {
  return std::span(pieces_).subspan(next_, std::min(kMostPieces, pieces_.size() - next_));
}

void Stream::advance(std::size_t bytes) noexcept {
  while (bytes > 0) {
    auto& piece = pieces_[next_];
    const auto taken = std::min(bytes, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
    piece.iov_len -= taken;
    bytes -= taken;
    if (piece.iov_len == 0) ++next_;
  }
}

Traffic::Traffic(std::span<const UniqueFd> sockets) {
  for (const auto& socket : sockets) lines_.push_back({.socket = socket.get()});
}

void Traffic::add(const hosts::Fabric::Send& send) {
  lines_[static_cast<std::size_t>(send.host)].out.add(send.bytes.data(), send.bytes.size());
}

void Traffic::add(const hosts::Fabric::Receive& receive) {
  lines_[static_cast<std::size_t>(receive.host)].in.add(receive.bytes.data(), receive.bytes.size());
}

Traffic::Progress Traffic::send(Line& line) {
  if (line.out.is_done()) return Progress::None;
  const auto pieces = line.out.next();
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const auto count = ::sendmsg(line.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) return would_wait() ? Progress::None : Progress::Lost;
  line.out.advance(static_cast<std::size_t>(count));
  return Progress::Some;
}

Traffic::Progress Traffic::receive(Line& line) {
  if (line.in.is_done()) return Progress::None;
  const auto pieces = line.in.next();
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const auto count = ::recvmsg(line.socket, &message, MSG_DONTWAIT);
  if (count < 0) return would_wait() ? Progress::None : Progress::Lost;
  if (count == 0) return Progress::Lost;
  line.in.advance(static_cast<std::size_t>(count));
  return Progress::Some;
}

/// Returns whether anything has moved.
bool Traffic::move_what_can_be_moved() {
  bool has_moved = false;
  for (auto& line : lines_) {
    // What has arrived is taken before a broken line is noticed.
    const auto received = receive(line);
    const auto sent = send(line);
    const bool moves = received == Progress::Some || sent == Progress::Some;
    line.has_moved |= moves;
    has_moved |= moves;
    if (received == Progress::Lost || (sent == Progress::Lost && received != Progress::Some)) {
      lost_ = static_cast<int>(&line - lines_.data());
    }
  }
  return has_moved;
}

void Traffic::wait(int limit_ms) {
  std::vector<pollfd> waiting;
  for (const auto& line : lines_) {
    short events = 0;
    if (!line.in.is_done()) events |= POLLIN;
    if (!line.out.is_done()) events |= POLLOUT;
    if (events != 0) waiting.push_back({line.socket, events, 0});
  }
  ::poll(waiting.data(), waiting.size(), limit_ms);
}

bool Traffic::is_finished() const {
  return std::ranges::all_of(lines_, [&](const Line& line) { return is_done(line); });
}

std::vector<int> Traffic::take_idle() {
  std::vector<int> hosts;
  for (std::size_t host = 0; host < lines_.size(); ++host) {
    const bool has_moved = std::exchange(lines_[host].has_moved, false);
    if (!is_done(lines_[host]) && !has_moved) hosts.push_back(static_cast<int>(host));
  }
  return hosts;
}

void Traffic::run(const hosts::Fabric::LookAround& look_around) {
  auto last_look = Clock::now();
  auto lost_since = Clock::time_point::max();
  while (!is_finished()) {
    if (lost_ < 0 && move_what_can_be_moved()) {
      // Who is waited for has just sent something, but others may be gone.
      if (Clock::now() - last_look < kPeerCheckInterval) continue;
    } else if (lost_ < 0) {
      wait(static_cast<int>(kPeerCheckInterval.count()));
    } else {
      const auto now = Clock::now();
      lost_since = std::min(lost_since, now);
      if (now - lost_since > kTimeForReasons) return;
      ::poll(nullptr, 0, 20);
    }
    if (lost_ < 0 && Clock::now() - last_look < kPeerCheckInterval) continue;
    look_around(take_idle());
    last_look = Clock::now();
  }
}

}  // namespace lockstep::comm::tcp
