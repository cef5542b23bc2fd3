#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/plan/pipeline_schedule.h"

namespace lockstep::plan {

/// Something that a device computes at a stretch.
struct FlowTask {
  enum class Kind : std::uint8_t { Forward, Backward, HandIn };
  Kind kind = Kind::Forward;
  int replica = 0;  ///< of this instance, from 0
  int stage = 0;
  std::int64_t micro_batch = 0;

  bool operator==(const FlowTask&) const = default;
};

/// What stages and devices an instance has, and how far they may go ahead of each other.
struct FlowShape {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  std::int64_t micro_batches = 1;             ///< G
  std::vector<std::vector<int>> device_of{};  ///< by replica and stage
  /// Batches come in an order: by so many neighbouring replicas, then micro-batch, then replica.
  int side_by_side = 1;
  /// So many of them, from the oldest that is in use on, can be had at the same time.
  std::int64_t most_batches = 4;
};

/// Says what each device computes next, while the replicas of one instance take their micro-batches
/// through one optimizer step.
///
/// A device does whatever can be done first: backward before forward, earlier replicas before later
/// ones. What it depends on: a stage takes the micro-batches of a replica forward in order and
/// backward in order; has no more of them under way than the schedule allows, those of all replicas
/// together, so that a replica follows the one before it without a gap and without more memory; and
/// replicas hand in their gradients in order, each stage its own as soon as it is done. Stages are
/// dealt out to devices round robin, so two replicas share all of their devices or none, and none
/// overtakes another: the oldest micro-batch of all may always go on.
///
/// Each device has a thread of its own, which asks and tells.
class LOCKSTEP_PRIVATE_API StepFlow {
 public:
  explicit StepFlow(FlowShape shape);

  /// All is to be done again. Nobody may be in `next`.
  void restart();

  /// What the device is to do; waits until there is something. Nothing: it has no more to do, or
  /// somebody has given up.
  std::optional<FlowTask> next(int device);
  /// The same, without waiting.
  std::optional<FlowTask> peek(int device) const;
  void done(const FlowTask& task);

  /// From now on nobody gets anything to do.
  void give_up();

 private:
  struct StageState {
    std::int64_t forward = 0;  ///< micro-batches that are through
    std::int64_t backward = 0;
    bool has_handed_in = false;
  };
  struct Place {
    int replica;
    int stage;
  };

  int num_replicas() const noexcept { return static_cast<int>(shape_.device_of.size()); }
  int num_stages() const noexcept { return static_cast<int>(shape_.device_of.front().size()); }
  StageState& state(int replica, int stage);
  const StageState& state(int replica, int stage) const;
  std::int64_t in_flight(int device, int stage) const;
  int open_replicas(int device) const;
  std::int64_t batch_number(int replica, std::int64_t micro_batch) const;
  std::int64_t oldest_batch() const;
  bool can_begin(int device, int replica) const;
  bool can_go_forward(int device, const Place& place) const;
  bool can_go_backward(const Place& place) const;
  bool can_hand_in(const Place& place) const;
  bool has_handed_in(int replica) const;
  std::optional<FlowTask> find(int device) const;
  bool has_more(int device) const;

  FlowShape shape_;
  std::vector<std::vector<Place>> places_;  ///< by device, in order of replicas
  std::vector<std::int64_t> limits_;        ///< by stage: micro-batches under way
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StageState> states_;  ///< by replica, then stage
  int handed_in_ = 0;               ///< replicas of which all stages have
  bool given_up_ = false;
};

}  // namespace lockstep::plan
