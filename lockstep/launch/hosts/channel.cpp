#include "lockstep/launch/hosts/channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "lockstep/comm/tcp/addresses.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kLongestMessage = std::size_t{64} << 20;
constexpr std::size_t kMostNoise = std::size_t{64} << 10;
/// What one call reads at most, so that channels take turns.
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;

void put_length(std::size_t length, std::string& to) {
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    to.push_back(static_cast<char>((length >> (8 * i)) & 0xff));
  }
}

std::size_t get_length(std::string_view from) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::size_t{static_cast<unsigned char>(from[i])} << (8 * i);
  }
  return length;
}

}  // namespace

Channel::Channel(UniqueFd in, UniqueFd out, Noise noise)
    : in_(std::move(in)), out_(std::move(out)), skips_noise_(noise == Noise::UntilGreeting) {
  for (const int fd : {in_.get(), this->out()}) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

void Channel::greet() {
  unsent_ += kGreeting;
  flush();
}

void Channel::send(const Message& message) {
  if (has_ended()) return;
  const auto packed = Message::to_msgpack(message);
  put_length(packed.size(), unsent_);
  unsent_.append(reinterpret_cast<const char*>(packed.data()), packed.size());
  flush();
}

void Channel::flush() {
  while (sent_ < unsent_.size()) {
    const auto count = ::write(out(), unsent_.data() + sent_, unsent_.size() - sent_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count < 0) {
      // What the other side has sent before it went may still be read: reading tells the end.
      sent_ = unsent_.size();
      break;
    }
    sent_ += static_cast<std::size_t>(count);
  }
  if (sent_ == unsent_.size()) {
    unsent_.clear();
    sent_ = 0;
  } else if (sent_ > kReadAtOnce) {
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
}

std::vector<Message> Channel::receive() {
  read_all();
  if (skips_noise_) skip_noise();
  std::vector<Message> messages;
  std::size_t begin = 0;
  while (!skips_noise_ && received_.size() - begin >= kLengthBytes) {
    const auto length = get_length(std::string_view(received_).substr(begin));
    if (length > kLongestMessage) {
      end(fmt::format("it sent a message of {} bytes", length));
      break;
    }
    if (received_.size() - begin - kLengthBytes < length) break;
    const auto* first = received_.data() + begin + kLengthBytes;
    auto message = Message::from_msgpack(first, first + length, /*strict=*/true,
                                         /*allow_exceptions=*/false);
    if (!message.is_object()) {
      end("it sent a message that cannot be read");
      break;
    }
    messages.push_back(std::move(message));
    begin += kLengthBytes + length;
  }
  received_.erase(0, begin);
  return messages;
}

void Channel::read_all() {
  std::array<char, 64 * 1024> block;
  for (std::size_t all = 0; all < kReadAtOnce && !has_ended();) {
    const auto count = ::read(in_.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) return end(count == 0 ? "the connection has ended" : std::strerror(errno));
    last_heard_ = Clock::now();
    received_.append(block.data(), static_cast<std::size_t>(count));
    all += static_cast<std::size_t>(count);
  }
}

void Channel::skip_noise() {
  const auto found = received_.find(kGreeting);
  if (found != std::string::npos) {
    noise_ += received_.substr(0, found);
    received_.erase(0, found + kGreeting.size());
    skips_noise_ = false;
  } else if (received_.size() > kMostNoise) {
    end("what answers is no agent of lockstep");
  } else if (has_ended()) {
    noise_ += received_;
  }
}

void Channel::end(std::string why) {
  if (why_ended_.empty()) why_ended_ = std::move(why);
}

std::vector<pollfd> Channel::descriptors() const {
  if (has_ended()) return {};
  std::vector<pollfd> fds{{in_.get(), POLLIN, 0}};
  if (unsent() > 0) fds.push_back({out(), POLLOUT, 0});
  return fds;
}

std::string Channel::local_address() const {
  return comm::tcp::local_address(in_.get());
}

}  // namespace lockstep::launch
