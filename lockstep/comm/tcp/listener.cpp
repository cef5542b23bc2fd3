#include "lockstep/comm/tcp/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/tcp/socket.h"

namespace lockstep::comm::tcp {
namespace {

using namespace std::chrono_literals;

/// Of those who come, in one round.
constexpr std::size_t kMostAtOnce = Listener::kMostPending / 4;

void watch(int poll, int socket) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = socket;
  if (::epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event) != 0) throw io_error("tcp: epoll_ctl");
}

}  // namespace

Listener::Listener(UniqueFd socket, const Secret& secret, IsWelcome is_welcome, Welcome welcome)
    : socket_(std::move(socket)),
      secret_(secret),
      is_welcome_(std::move(is_welcome)),
      welcome_(std::move(welcome)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!poll_) throw io_error("tcp: epoll_create");
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
  watch(poll_.get(), socket_.get());
}

std::chrono::milliseconds Listener::time_to_wait(std::chrono::milliseconds limit) const {
  if (pending_.empty()) return limit;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(pending_.front().deadline - Clock::now());
  return std::clamp(left, 0ms, limit);
}

void Listener::serve(std::chrono::milliseconds limit) {
  std::array<epoll_event, 2 * kMostPending> events{};
  const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(time_to_wait(limit).count()));
  const auto happened = std::span(events).first(static_cast<std::size_t>(std::max(count, 0)));
  // Whoever has answered is heard before anybody new can take its place.
  for (const auto& event : happened) {
    const auto guest = by_descriptor_.find(event.data.fd);
    if (guest != by_descriptor_.end()) serve_guest(guest->second);
  }
  const auto is_knock = [&](const epoll_event& event) { return event.data.fd == socket_.get(); };
  if (std::ranges::any_of(happened, is_knock)) accept_some();
  drop_late();
}

void Listener::accept_some() {
  // Not without end: those that are here already must get their turn, and time to answer.
  for (std::size_t i = 0; i < kMostAtOnce; ++i) {
    UniqueFd guest(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (guest) {
      add(std::move(guest));
      continue;
    }
    if (errno == ECONNABORTED) continue;
    if (would_wait()) return;
    // There is no room, for as long as strangers have it. Where it is not theirs, the connection
    // stays to be accepted: do not spin over it.
    if (!drop_oldest_stranger()) return std::this_thread::sleep_for(10ms);
  }
}

void Listener::add(UniqueFd socket) {
  if (pending_.size() == kMostPending) drop_oldest_stranger();
  make_prompt(socket.get());
  const int descriptor = socket.get();
  pending_.push_back(
      {std::move(socket), ServerHandshake(secret_), Clock::now() + kTimeToProve, false});
  const auto guest = std::prev(pending_.end());
  by_descriptor_[descriptor] = guest;
  try {
    watch(poll_.get(), descriptor);
  } catch (const Error&) {
    return drop(guest);  // the kernel has no room for one more
  }
  if (!send_at_once(descriptor, guest->handshake.take_output())) drop(guest);
}

void Listener::serve_guest(Guests::iterator guest) {
  if (!read_from(*guest)) return drop(guest);
  if (guest->handshake.state() != HandshakeState::Done) return;
  auto socket = std::move(guest->socket);
  const auto payload = guest->handshake.payload();
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  by_descriptor_.erase(socket.get());
  proven_.erase(guest);
  welcome_(std::move(socket), payload);
}

/// Returns whether the guest may stay.
bool Listener::read_from(Guest& guest) {
  std::array<std::byte, 256> bytes;
  while (guest.handshake.state() == HandshakeState::Waiting) {
    const auto length = std::min(bytes.size(), guest.handshake.wanted());
    const auto count = ::recv(guest.socket.get(), bytes.data(), length, MSG_DONTWAIT);
    if (count < 0) return would_wait();
    if (count == 0) return false;
    const bool was_proven = guest.handshake.is_client_proven();
    guest.handshake.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
    if (!was_proven && guest.handshake.is_client_proven() && !answer(guest)) return false;
  }
  return guest.handshake.state() == HandshakeState::Done;
}

bool Listener::answer(Guest& guest) {
  if (!is_welcome_(guest.handshake.payload())) return false;
  guest.handshake.accept();
  guest.is_welcome = true;
  guest.deadline = Clock::now() + kTimeToEnd;
  proven_.splice(proven_.end(), pending_, by_descriptor_.at(guest.socket.get()));
  return send_at_once(guest.socket.get(), guest.handshake.take_output());
}

bool Listener::drop_oldest_stranger() {
  if (pending_.empty()) return false;
  drop(pending_.begin());
  return true;
}

void Listener::drop(Guests::iterator guest) {
  by_descriptor_.erase(guest->socket.get());
  (guest->is_welcome ? proven_ : pending_).erase(guest);
}

void Listener::drop_late() {
  for (auto* guests : {&pending_, &proven_}) {
    while (!guests->empty() && guests->front().deadline <= Clock::now()) drop(guests->begin());
  }
}

}  // namespace lockstep::comm::tcp
