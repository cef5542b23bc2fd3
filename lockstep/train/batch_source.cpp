#include "lockstep/train/batch_source.h"

#include <utility>

namespace lockstep::train {

BatchSource::BatchSource(data::Loader& loader, int devices, DeviceOf device_of)
    : loader_(loader),
      device_of_(std::move(device_of)),
      waiting_(static_cast<std::size_t>(devices)) {}

std::optional<data::Batch> BatchSource::take_waiting(int device) {
  const std::lock_guard lock(waiting_mutex_);
  auto& mine = waiting_[static_cast<std::size_t>(device)];
  if (mine.empty()) return std::nullopt;
  std::optional<data::Batch> batch(std::move(mine.front()));
  mine.pop_front();
  return batch;
}

std::optional<data::Batch> BatchSource::next(int device) {
  if (auto batch = take_waiting(device)) return batch;
  const std::lock_guard lock(loader_mutex_);
  while (true) {
    // Whoever held the loader before may have found it.
    if (auto batch = take_waiting(device)) return batch;
    auto batch = loader_.next();
    if (!batch) return std::nullopt;
    const int owner = device_of_(batch->place());
    if (owner == device) return batch;
    const std::lock_guard waiting_lock(waiting_mutex_);
    waiting_[static_cast<std::size_t>(owner)].push_back(std::move(*batch));
  }
}

void BatchSource::give_up() {
  const std::lock_guard lock(waiting_mutex_);
  for (auto& batches : waiting_) batches.clear();
}

}  // namespace lockstep::train
