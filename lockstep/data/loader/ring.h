#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/data/loader/batch_memory.h"
#include "lockstep/data/loader/batch_plan.h"

namespace lockstep::data {

/// A sample that could not be filled, and the reason.
struct FillFailure {
  std::int64_t position = 0;    ///< within the batch
  bool is_of_the_plan = false;  ///< the plan threw, not the data set
  std::exception_ptr cause;
};

/// The memory of one batch of a ring.
struct BatchSlot {
  BatchSlot(const std::vector<Field>& fields, std::int64_t samples, const AllocateMemory& allocate)
      : memory(fields, samples, allocate), indexes(static_cast<std::size_t>(samples)) {}

  BatchMemory memory;
  std::vector<std::int64_t> indexes;  ///< the samples, as the set numbers them
  BatchPlace place;
  std::int64_t size = 0;
  std::int64_t claimed = 0;  ///< samples that someone fills or has filled
  std::int64_t unfilled = 0;
  std::optional<FillFailure> failure;
};

/// The batches of a loader on their way: opened in the plan's order, filled in chunks by whoever
/// has time, taken in order, and used again when their taker lets go of them.
///
/// Workers call `claim` and `finish`, the consumer `try_claim`, `finish` and `take`; anyone
/// `release`. One mutex guards it all; it is held for a few hundred nanoseconds per chunk.
class Ring {
 public:
  using Clock = std::chrono::steady_clock;

  using Failure = FillFailure;
  using Slot = BatchSlot;

  /// Neighbouring samples of a batch, for one thread to fill.
  struct Chunk {
    Slot* slot = nullptr;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  /// How far ahead of the consumer batches are opened.
  enum class Ahead : std::uint8_t {
    None,         ///< only what is asked for
    WithinEpoch,  ///< until the epoch ends
    Unbounded,    ///< on into the next epoch
  };

  struct Options {
    int slots = 1;
    Ahead ahead = Ahead::None;
    Clock::duration held_too_long{};  ///< after which `take` gives up
  };

  Ring(BatchPlanPtr plan, std::vector<Field> fields, const Options& options,
       const AllocateMemory& allocate);

  const BatchPlan& plan() const noexcept { return *plan_; }
  const std::vector<Field>& fields() const noexcept { return fields_; }

  /// The next batch to be taken is `number` of `epoch`. What was filled for another place is
  /// dropped.
  void seek(std::int64_t epoch, std::int64_t number);

  /// A chunk to fill; waits for one. Nothing once the ring is stopped. Throws what the plan throws.
  std::optional<Chunk> claim();
  /// A chunk to fill, for the consumer: of the batch that is taken next if there is one, else of
  /// one behind it; nothing if the next batch is filled, or all that may be filled is in work.
  std::optional<Chunk> try_claim();
  /// The samples of a chunk are filled, or one of them could not be. `time` is what it took.
  void finish(const Chunk& chunk, Clock::duration time, std::optional<Failure> failure);

  /// What a worker could not get around: `take` throws it.
  void fail(std::exception_ptr cause) noexcept;

  /// The next batch, when it is filled: nothing while chunks of it are left to claim.
  /// Throws `Timeout` where every batch has been held by its takers for too long.
  Slot* take();
  void release(Slot& slot);

  /// Wakes every worker; `claim` returns nothing from now on.
  void stop() noexcept;
  bool is_stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

  Clock::duration producers_waited() const;

 private:
  void drop_opened(std::unique_lock<std::mutex>& lock, std::int64_t epoch, std::int64_t number);
  bool may_open() const;
  void open_next();
  std::int64_t chunk_size() const;
  std::optional<Chunk> claim_from(Slot& slot);
  std::optional<Chunk> claim_any();
  void await_front(std::unique_lock<std::mutex>& lock);
  static bool is_filled(const Slot& slot);

  BatchPlanPtr plan_;
  std::vector<Field> fields_;
  Options options_;
  std::vector<std::unique_ptr<Slot>> slots_;

  mutable std::mutex mutex_;
  std::condition_variable room_;    ///< for workers: there may be something to claim
  std::condition_variable filled_;  ///< for the consumer: a chunk is finished, a batch released
  std::atomic<bool> stopped_{false};
  std::vector<Slot*> free_;
  std::deque<Slot*> opened_;  ///< in the order in which they will be taken
  std::int64_t epoch_ = 0;    ///< of the next batch to open
  std::int64_t number_ = 0;   ///< of the next batch to open
  std::int64_t wanted_ = -1;  ///< the epoch that the consumer is in
  bool consumer_asks_ = false;
  bool is_seeking_ = false;  ///< nothing is opened until it is done
  int chunks_in_work_ = 0;
  std::exception_ptr failure_;
  int workers_waiting_ = 0;
  bool consumer_waiting_ = false;
  Clock::duration producers_waited_{};
  Clock::duration sample_time_{};  ///< what a sample takes, lately
};

}  // namespace lockstep::data
