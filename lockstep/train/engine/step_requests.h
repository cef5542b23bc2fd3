#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// A request of one instance to all instances.
enum class Request : std::uint8_t {
  Stop,        ///< after the next step, `Progress::is_stopped` is set on every instance
  Checkpoint,  ///< instance 0 takes a checkpoint
};

/// The requests of this instance and of the other instances. Requests are sent with the totals of a
/// step, or of a launch of steps. A request that is made after the last leaf is sent with the next
/// step.
///
/// Any thread may call `make`. One thread at a time calls the other members.
class StepRequests {
 public:
  explicit StepRequests(int rank) : is_first_(rank == 0) {}

  void make(Request request) noexcept { own_[index(request)].store(true); }

  /// Writes the requests of this instance into a leaf or a sum. A stop request is sent with every
  /// later step. Instance 0 takes the checkpoints, so it sends no request for one.
  void write_into(std::span<float> to) noexcept {
    to[index(Request::Stop)] = own_[index(Request::Stop)].load() ? 1 : 0;
    if (is_first_) return;
    to[index(Request::Checkpoint)] = own_[index(Request::Checkpoint)].exchange(false) ? 1 : 0;
  }

  /// Reads the requests of all instances from the totals of a step.
  void receive(std::span<const float> totals) noexcept {
    std::ranges::copy(totals, received_.begin());
    ++num_received_;
  }

  /// Whether an instance has requested a checkpoint. If all instances receive the same signal, it
  /// counts as one request: this instance obeys it immediately, and ignores the requests that the
  /// others send with the next step or launch.
  bool take_checkpoint_request() noexcept {
    const bool is_own = own_[index(Request::Checkpoint)].exchange(false);
    if (is_own) last_own_ = num_received_;
    return is_own || (received_[index(Request::Checkpoint)] > 0 && num_received_ > last_own_ + 1);
  }

  static bool is_stop(std::span<const float> totals) noexcept {
    return totals[index(Request::Stop)] > 0;
  }

 private:
  static constexpr std::size_t index(Request request) noexcept {
    return static_cast<std::size_t>(request);
  }

  const bool is_first_;
  std::array<std::atomic<bool>, LeafTotals::kRequests> own_{};
  std::array<float, LeafTotals::kRequests> received_{};
  std::int64_t num_received_ = 0;  ///< calls of `receive`
  std::int64_t last_own_ = -2;     ///< their number at the last request of this instance
};

}  // namespace lockstep::train
