#include "lockstep/train/backends/batch_source.h"

#include <exception>
#include <utility>

namespace lockstep::train {

BatchSource::BatchSource(data::Loader& loader, topology::ReplicaRange replicas)
    : loader_(loader), replicas_(replicas), waiting_(static_cast<std::size_t>(replicas.count)) {}

std::optional<data::Batch> BatchSource::next(int replica, events::SpanSink* spans) {
  auto& mine = waiting_for(replica);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !mine.empty() || !is_asked_; });
    if (!mine.empty()) {
      std::optional<data::Batch> batch(std::move(mine.front()));
      mine.pop_front();
      return batch;
    }
    auto batch = ask_loader(lock, spans);
    if (!batch) return std::nullopt;
    const auto owner = batch->place().replica;
    if (owner == replica) return batch;
    if (!has_given_up_) waiting_for(owner).push_back(std::move(*batch));
  }
}

/// Unlocks during the call. The loader may wait until a batch is released, so other threads must be
/// able to take their batches.
std::optional<data::Batch> BatchSource::ask_loader(std::unique_lock<std::mutex>& lock,
                                                   events::SpanSink* spans) {
  is_asked_ = true;
  lock.unlock();
  std::optional<data::Batch> batch;
  std::exception_ptr failure;
  try {
    batch = loader_.next(spans);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  is_asked_ = false;
  changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return batch;
}

void BatchSource::give_up() {
  const std::lock_guard lock(mutex_);
  has_given_up_ = true;
  for (auto& batches : waiting_) batches.clear();
}

}  // namespace lockstep::train
