#include "lockstep/plan/step_flow.h"

#include <algorithm>
#include <limits>

namespace lockstep::plan {
namespace {

int count_devices(const std::vector<std::vector<int>>& device_of) {
  int devices = 0;
  for (const auto& stages : device_of) {
    for (const int device : stages) devices = std::max(devices, device + 1);
  }
  return devices;
}

}  // namespace

StepFlow::StepFlow(FlowShape shape)
    : shape_(std::move(shape)),
      places_(static_cast<std::size_t>(count_devices(shape_.device_of))),
      states_(static_cast<std::size_t>(num_replicas() * num_stages())) {
  for (int replica = 0; replica < num_replicas(); ++replica) {
    for (int stage = 0; stage < num_stages(); ++stage) {
      const int device =
          shape_.device_of[static_cast<std::size_t>(replica)][static_cast<std::size_t>(stage)];
      places_[static_cast<std::size_t>(device)].push_back({replica, stage});
    }
  }
  for (int stage = 0; stage < num_stages(); ++stage) {
    limits_.push_back(most_in_flight({.schedule = shape_.schedule,
                                      .stages = num_stages(),
                                      .micro_batches = shape_.micro_batches},
                                     stage));
  }
}

void StepFlow::restart() {
  const std::lock_guard lock(mutex_);
  std::fill(states_.begin(), states_.end(), StageState{});
  handed_in_ = 0;
  given_up_ = false;
}

StepFlow::StageState& StepFlow::state(int replica, int stage) {
  return states_[static_cast<std::size_t>(replica * num_stages() + stage)];
}
const StepFlow::StageState& StepFlow::state(int replica, int stage) const {
  return states_[static_cast<std::size_t>(replica * num_stages() + stage)];
}

std::int64_t StepFlow::in_flight(int device, int stage) const {
  std::int64_t count = 0;
  for (const auto& place : places_[static_cast<std::size_t>(device)]) {
    if (place.stage != stage) continue;
    const auto& at = state(place.replica, stage);
    count += at.forward - at.backward;
  }
  return count;
}

/// Those that have begun with this device and hold gradients.
int StepFlow::open_replicas(int device) const {
  int count = 0;
  for (const auto& [replica, stage] : places_[static_cast<std::size_t>(device)]) {
    if (stage == 0 && replica >= handed_in_ && state(replica, 0).forward > 0) ++count;
  }
  return count;
}

/// Where it stands in the order in which batches come.
std::int64_t StepFlow::batch_number(int replica, std::int64_t micro_batch) const {
  const int first = replica / shape_.side_by_side * shape_.side_by_side;
  const int neighbours = std::min(shape_.side_by_side, num_replicas() - first);
  return first * shape_.micro_batches + micro_batch * neighbours + (replica - first);
}

std::int64_t StepFlow::oldest_batch() const {
  auto oldest = std::numeric_limits<std::int64_t>::max();
  for (int replica = 0; replica < num_replicas(); ++replica) {
    const auto done = state(replica, 0).backward;
    if (done < shape_.micro_batches) oldest = std::min(oldest, batch_number(replica, done));
  }
  return oldest;
}

/// Only a pipeline has something to gain from a replica that begins before the one in front of it
/// has handed in, and only from one.
bool StepFlow::can_begin(int device, int replica) const {
  for (const auto& place : places_[static_cast<std::size_t>(device)]) {
    if (place.replica >= replica) break;
    if (place.stage == 0 && state(place.replica, 0).forward < shape_.micro_batches) return false;
  }
  return open_replicas(device) < (num_stages() == 1 ? 1 : 2);
}

bool StepFlow::can_go_forward(int device, const Place& place) const {
  const auto& [replica, stage] = place;
  const auto micro_batch = state(replica, stage).forward;
  if (micro_batch == shape_.micro_batches) return false;
  if (in_flight(device, stage) >= limits_[static_cast<std::size_t>(stage)]) return false;
  if (stage > 0) return state(replica, stage - 1).forward > micro_batch;
  if (micro_batch == 0 && !can_begin(device, replica)) return false;
  return batch_number(replica, micro_batch) - oldest_batch() < shape_.most_batches;
}

bool StepFlow::can_go_backward(const Place& place) const {
  const auto& [replica, stage] = place;
  const auto& [forward, backward, _] = state(replica, stage);
  if (backward == forward) return false;
  const bool waits_for_all = shape_.schedule == PipelineSchedule::GPipe && num_stages() > 1;
  if (waits_for_all && forward < shape_.micro_batches) return false;
  return stage == num_stages() - 1 || state(replica, stage + 1).backward > backward;
}

bool StepFlow::can_hand_in(const Place& place) const {
  const auto& at = state(place.replica, place.stage);
  return place.replica == handed_in_ && at.backward == shape_.micro_batches && !at.has_handed_in;
}

bool StepFlow::has_handed_in(int replica) const {
  for (int stage = 0; stage < num_stages(); ++stage) {
    if (!state(replica, stage).has_handed_in) return false;
  }
  return true;
}

std::optional<FlowTask> StepFlow::find(int device) const {
  using Kind = FlowTask::Kind;
  const auto& places = places_[static_cast<std::size_t>(device)];
  for (const auto& place : places) {
    if (can_hand_in(place)) return FlowTask{Kind::HandIn, place.replica, place.stage, 0};
  }
  for (const auto& place : places) {
    if (!can_go_backward(place)) continue;
    return FlowTask{Kind::Backward, place.replica, place.stage,
                    state(place.replica, place.stage).backward};
  }
  for (const auto& place : places) {
    if (!can_go_forward(device, place)) continue;
    return FlowTask{Kind::Forward, place.replica, place.stage,
                    state(place.replica, place.stage).forward};
  }
  return std::nullopt;
}

bool StepFlow::has_more(int device) const {
  const auto& places = places_[static_cast<std::size_t>(device)];
  return std::any_of(places.begin(), places.end(), [&](const Place& place) {
    return !state(place.replica, place.stage).has_handed_in;
  });
}

std::optional<FlowTask> StepFlow::next(int device) {
  std::unique_lock lock(mutex_);
  while (!given_up_ && has_more(device)) {
    if (auto task = find(device)) return task;
    changed_.wait(lock);
  }
  return std::nullopt;
}

std::optional<FlowTask> StepFlow::peek(int device) const {
  const std::lock_guard lock(mutex_);
  return find(device);
}

void StepFlow::done(const FlowTask& task) {
  const std::lock_guard lock(mutex_);
  switch (task.kind) {
    case FlowTask::Kind::Forward:
      ++state(task.replica, task.stage).forward;
      break;
    case FlowTask::Kind::Backward:
      ++state(task.replica, task.stage).backward;
      break;
    case FlowTask::Kind::HandIn:
      state(task.replica, task.stage).has_handed_in = true;
      if (has_handed_in(task.replica)) ++handed_in_;
      break;
  }
  changed_.notify_all();
}

void StepFlow::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

}  // namespace lockstep::plan
