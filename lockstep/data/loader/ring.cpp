#include "lockstep/data/loader/ring.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

/// What a thread fills between two looks at the mutex: enough for the lock not to be seen, little
/// enough for threads that share a batch to finish at about the same time.
constexpr std::int64_t kMostPerChunk = 16;
constexpr auto kTimePerChunk = std::chrono::microseconds(100);

/// How long the consumer looks again and again before it sleeps: filling the rest of a batch takes
/// microseconds, being woken can take longer.
constexpr auto kPatience = std::chrono::microseconds(100);

}  // namespace

Ring::Ring(BatchPlanPtr plan, std::vector<Field> fields, const Options& options,
           const AllocateMemory& allocate)
    : plan_(std::move(plan)), fields_(std::move(fields)), options_(options) {
  for (int i = 0; i < options_.slots; ++i) {
    slots_.push_back(std::make_unique<Slot>(fields_, plan_->samples_per_batch(), allocate));
    free_.push_back(slots_.back().get());
  }
}

void Ring::seek(std::int64_t epoch, std::int64_t number) {
  std::unique_lock lock(mutex_);
  wanted_ = epoch;
  const auto next = opened_.empty() ? plan_->place(epoch_, number_) : opened_.front()->place;
  if (next.epoch != epoch || next.number != number) drop_opened(lock, epoch, number);
  if (workers_waiting_ > 0) room_.notify_one();
}

/// Chunks that are in work end first; what nobody has begun is dropped.
void Ring::drop_opened(std::unique_lock<std::mutex>& lock, std::int64_t epoch,
                       std::int64_t number) {
  is_seeking_ = true;
  for (auto* const slot : opened_) slot->claimed = slot->size;
  consumer_waiting_ = true;
  filled_.wait(lock, [&] { return chunks_in_work_ == 0; });
  consumer_waiting_ = false;
  free_.insert(free_.end(), opened_.begin(), opened_.end());
  opened_.clear();
  epoch_ = epoch;
  number_ = number;
  is_seeking_ = false;
}

std::optional<Ring::Chunk> Ring::claim() {
  std::unique_lock lock(mutex_);
  while (!is_stopped()) {
    if (auto chunk = claim_any()) {
      // There may be more: one worker wakes the next.
      if (workers_waiting_ > 0) room_.notify_one();
      return chunk;
    }
    const auto start = Clock::now();
    ++workers_waiting_;
    room_.wait(lock);
    --workers_waiting_;
    producers_waited_ += Clock::now() - start;
  }
  return std::nullopt;
}

std::optional<Ring::Chunk> Ring::try_claim() {
  const std::lock_guard lock(mutex_);
  consumer_asks_ = true;
  if (!opened_.empty() && is_filled(*opened_.front())) return std::nullopt;
  auto chunk = claim_any();
  if (chunk && workers_waiting_ > 0) room_.notify_one();
  return chunk;
}

void Ring::finish(const Chunk& chunk, Clock::duration time, std::optional<Failure> failure) {
  const std::lock_guard lock(mutex_);
  auto& slot = *chunk.slot;
  if (failure && (!slot.failure || failure->position < slot.failure->position)) {
    slot.failure = std::move(failure);
  }
  sample_time_ = (7 * sample_time_ + time / chunk.count) / 8;
  --chunks_in_work_;
  slot.unfilled -= chunk.count;
  if (consumer_waiting_) filled_.notify_one();
}

void Ring::fail(std::exception_ptr cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(cause);
  filled_.notify_one();
}

Ring::Slot* Ring::take() {
  std::unique_lock lock(mutex_);
  await_front(lock);
  if (failure_) std::rethrow_exception(failure_);
  if (opened_.empty() || !is_filled(*opened_.front())) return nullptr;
  auto* const slot = opened_.front();
  opened_.pop_front();
  consumer_asks_ = false;
  return slot;
}

void Ring::release(Slot& slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(&slot);
  if (workers_waiting_ > 0) room_.notify_one();
  if (consumer_waiting_) filled_.notify_one();
}

void Ring::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  room_.notify_all();
}

Ring::Clock::duration Ring::producers_waited() const {
  const std::lock_guard lock(mutex_);
  return producers_waited_;
}

bool Ring::may_open() const {
  if (free_.empty() || is_seeking_ || plan_->batches_per_epoch() == 0) return false;
  const bool is_asked_for = consumer_asks_ && opened_.empty();
  switch (options_.ahead) {
    case Ahead::None:
      return is_asked_for;
    case Ahead::WithinEpoch:
      return is_asked_for || epoch_ == wanted_;
    case Ahead::Unbounded:
      return true;
  }
  return false;
}

void Ring::open_next() {
  // What the plan throws leaves everything as it is.
  const auto place = plan_->place(epoch_, number_);
  const auto size = plan_->size(place);
  if (size < 0 || size > plan_->samples_per_batch()) {
    throw Error(ErrorKind::Options,
                fmt::format("loader: batch {} of epoch {}: expected 0 to {} samples from the plan, "
                            "found {}",
                            number_, epoch_, plan_->samples_per_batch(), size));
  }
  auto* const slot = free_.back();
  free_.pop_back();
  slot->place = place;
  slot->size = size;
  slot->claimed = 0;
  slot->unfilled = slot->size;
  slot->failure.reset();
  opened_.push_back(slot);
  if (++number_ == plan_->batches_per_epoch()) {
    number_ = 0;
    ++epoch_;
  }
}

/// A matter of speed alone: what is delivered does not depend on it.
std::int64_t Ring::chunk_size() const {
  if (sample_time_ <= kTimePerChunk / kMostPerChunk) return kMostPerChunk;
  return std::max<std::int64_t>(1, kTimePerChunk / sample_time_);
}

std::optional<Ring::Chunk> Ring::claim_from(Slot& slot) {
  if (slot.claimed == slot.size) return std::nullopt;
  const Chunk chunk{&slot, slot.claimed, std::min(chunk_size(), slot.size - slot.claimed)};
  slot.claimed += chunk.count;
  ++chunks_in_work_;
  return chunk;
}

/// The earliest chunk that nobody has; opens a batch where all are in work.
std::optional<Ring::Chunk> Ring::claim_any() {
  for (auto* const slot : opened_) {
    if (auto chunk = claim_from(*slot)) return chunk;
  }
  if (!may_open()) return std::nullopt;
  open_next();
  return claim_from(*opened_.back());
}

/// Returns when the first batch is filled, or when there is something to claim.
void Ring::await_front(std::unique_lock<std::mutex>& lock) {
  const auto has_chunk = [](const Slot* slot) { return slot->claimed < slot->size; };
  const auto is_something_to_do = [&] {
    return failure_ || (!opened_.empty() && is_filled(*opened_.front())) || may_open() ||
           std::any_of(opened_.begin(), opened_.end(), has_chunk);
  };
  const auto start = Clock::now();
  while (!is_something_to_do() && Clock::now() - start < kPatience) {
    lock.unlock();
    ::sched_yield();
    lock.lock();
  }
  consumer_waiting_ = true;
  while (!is_something_to_do()) {
    const bool is_held = opened_.empty() && free_.empty();
    if (filled_.wait_for(lock, options_.held_too_long) == std::cv_status::no_timeout) continue;
    if (!is_held || is_something_to_do()) continue;
    consumer_waiting_ = false;
    throw Error(
        ErrorKind::Timeout,
        fmt::format("loader: all {} buffers have been held for {:.3g} s, and none is left "
                    "to fill",
                    slots_.size(), std::chrono::duration<double>(options_.held_too_long).count()),
        "let go of a batch before the next is asked for, or raise `buffers`");
  }
  consumer_waiting_ = false;
}

bool Ring::is_filled(const Slot& slot) {
  return slot.claimed == slot.size && slot.unfilled == 0;
}

}  // namespace lockstep::data
