#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lockstep/optimizer/step_rules.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// Loss and metrics of one optimizer step, averaged over all replicas of the job.
struct StepOutput {
  double loss = 0;
  std::vector<double> metrics;
  std::vector<float> replica_losses;  ///< by replica
  bool skipped = false;               ///< loss scaling found a number that is not finite
};

/// The position of a step in the program's loops and in the data.
struct StepPosition {
  std::int64_t epoch = 0;  ///< of the loader
  bool begins_epoch = false;
  std::int64_t loop = 0;        ///< over epochs, from 1; 0: none
  std::int64_t loop_epoch = 0;  ///< of that loop, from 1
  std::int64_t loader = 0;      ///< number of the loader
  std::int64_t samples = 1;     ///< of all replicas in this step
};

/// The accounting of training steps: turns the totals of a step into its result and into the next
/// progress, and refuses a step that diverged. All backends use it, so that a step has the same
/// meaning wherever it is computed.
///
/// Errors: `Diverged`. One thread at a time.
class StepAccount {
 public:
  struct Parts {
    const WeightLayout& weights;
    const LeafTotals& totals;
    optimizer::StepRules rules{};
    std::vector<double> metric_scales{};  ///< by metric; 100 for a metric in percent
    std::function<void(const std::string&)> tell = [](const std::string&) {};
  };
  explicit StepAccount(Parts parts) : parts_(std::move(parts)) {}

  /// Sets the position of the next step. Later steps are in the same epoch.
  void begin(const StepPosition& position) { position_ = position; }

  /// Refuses losses that are not finite, unless loss scaling can skip the step. Reports, once, the
  /// parameters that have no gradient.
  void check(std::span<const float> totals, const Progress& before);
  /// The progress after this step.
  Progress advance(const Progress& before, std::span<const float> totals, bool is_skipped) const;
  /// The result of a step that is committed. Refuses a skipped step if the loss scale cannot fall.
  StepOutput report(std::span<const float> totals, const Progress& before, bool is_skipped);

 private:
  StepOutput output_of(std::span<const float> totals) const;
  void check_losses(std::span<const float> totals, const Progress& before) const;
  void name_idle_parameters(std::span<const float> totals);

  Parts parts_;
  StepPosition position_;
  std::vector<float> last_losses_;
  std::set<std::string> named_;  ///< parameters that were reported
};

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
