#include "lockstep/plan/forecast.h"

#include <algorithm>
#include <optional>

namespace lockstep::plan {
namespace {

/// A device, and what it is at.
struct Busy {
  std::optional<FlowTask> task{};
  double until = 0;
};

double duration_of(const FlowTask& task, const std::vector<StageTimes>& stages) {
  const auto& times = stages[static_cast<std::size_t>(task.stage)];
  switch (task.kind) {
    case FlowTask::Kind::Forward:
      return times.forward_s;
    case FlowTask::Kind::Backward:
      return times.backward_s;
    case FlowTask::Kind::HandIn:
      return 0;
  }
  return 0;
}

std::size_t count_devices(const FlowShape& shape) {
  int last = 0;
  for (const auto& devices : shape.device_of) {
    for (const int device : devices) last = std::max(last, device);
  }
  return static_cast<std::size_t>(last) + 1;
}

}  // namespace

Forecast forecast(const FlowShape& shape, const std::vector<StageTimes>& stages) {
  StepFlow flow(shape);
  std::vector<Busy> devices(count_devices(shape));
  double now = 0;
  double worked = 0;
  while (true) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (devices[i].task) continue;
      devices[i].task = flow.peek(static_cast<int>(i));
      if (!devices[i].task) continue;
      const auto duration = duration_of(*devices[i].task, stages);
      devices[i].until = now + duration;
      worked += duration;
    }
    auto next = devices.end();
    for (auto device = devices.begin(); device != devices.end(); ++device) {
      if (device->task && (next == devices.end() || device->until < next->until)) next = device;
    }
    if (next == devices.end()) break;
    now = next->until;
    flow.done(*next->task);
    next->task.reset();
  }
  const auto time = now * static_cast<double>(devices.size());
  return {.seconds = now, .idle_share = time > 0 ? std::max(0.0, 1 - worked / time) : 0};
}

}  // namespace lockstep::plan
