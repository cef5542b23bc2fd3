#pragma once

#include <nlohmann/json_fwd.hpp>
#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep::launch {

using Message = nlohmann::json;

/// Messages between the launcher and the agent of a host, over a socket or a pair of pipes.
///
/// One thread. Nothing blocks: what cannot be sent yet is kept, and goes out when the descriptor is
/// writable. A message is its length in four bytes and the same in MessagePack, which takes any
/// bytes for text: variables and output need not be UTF-8.
class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  /// What an agent sends first, for those whose login shell writes something before it runs.
  static constexpr std::string_view kGreeting = "\nlockstep-agent 1\n";
  enum class Noise { None, UntilGreeting };

  /// `out` is empty for a socket, which takes both ways.
  Channel(UniqueFd in, UniqueFd out, Noise noise = Noise::None);

  /// Greets a reader that skips noise.
  void greet();
  void send(const Message& message);

  /// What has come in since.
  std::vector<Message> receive();

  /// Nothing more will come: the other side is gone, or sends what nobody understands.
  bool has_ended() const noexcept { return !why_ended_.empty(); }
  const std::string& why_ended() const noexcept { return why_ended_; }

  /// When something came last; at first, when the channel was made.
  Clock::time_point last_heard() const noexcept { return last_heard_; }

  /// To be polled: for what comes, and for writing while something waits to be sent.
  std::vector<pollfd> descriptors() const;
  /// Sends what it can of what was kept.
  void flush();
  std::size_t unsent() const noexcept { return unsent_.size() - sent_; }

  /// What was skipped before the greeting.
  const std::string& noise() const noexcept { return noise_; }

  /// The local address of a socket, in numbers; empty for a pipe.
  std::string local_address() const;

 private:
  void read_all();
  void skip_noise();
  void end(std::string why);
  int out() const noexcept { return out_ ? out_.get() : in_.get(); }

  UniqueFd in_;
  UniqueFd out_;
  bool skips_noise_;
  std::string noise_;
  std::string received_;
  std::string unsent_;
  std::size_t sent_ = 0;
  std::string why_ended_;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace lockstep::launch
