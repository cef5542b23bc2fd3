#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/export.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader/allocate_memory.h"
#include "lockstep/data/loader/batch.h"
#include "lockstep/data/loader/batch_plan.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/events/trace_events.h"

namespace lockstep::data {

enum class LoaderMode : std::uint8_t {
  Sync,   ///< a batch is filled when it is asked for
  Async,  ///< workers fill batches ahead of use
};

/// "sync", "async"; "rebatched", the tutorial's third mode, is async here, since no worker drops
/// samples. Throws `Options` for other words.
LOCKSTEP_API LoaderMode parse_loader_mode(std::string_view name);
LOCKSTEP_API std::string_view name_of(LoaderMode mode) noexcept;

/// Batches that a loader may have at the same time.
inline constexpr int kMostBuffers = 1 << 16;

struct LoaderOptions {
  LoaderMode mode = LoaderMode::Async;
  /// Threads that fill batches. The consumer fills too while it has nothing to do but wait, so 0 is
  /// enough to run. Unset: a core of this process each, but one for the consumer.
  std::optional<int> workers{};
  int buffers = 4;  ///< batches that are filled or held at the same time
  /// Async: fill from construction on, and go on into the next epoch while this one ends.
  bool early_preload = true;
  /// How long `next` waits while every buffer is held, before that is an error.
  std::chrono::duration<double> patience{60};
  std::optional<Pipeline> pipeline{};  ///< for pictures; unset: all fields come as they are
  std::string image_field = "image";
  AllocateMemory allocate = allocate_pages;
  /// Is told what workers do; null: nobody is. It outlives the loader.
  events::SpanTracks* spans = nullptr;
  std::int64_t batches_per_step = 1;  ///< by which spans tell the optimizer step of a batch
};

/// How many workers a loader has in a process of so many cores: as many as were asked for, else a
/// core each, but one for the consumer.
LOCKSTEP_API int workers_for(LoaderMode mode, std::optional<int> asked, int cores) noexcept;

/// How well a loader kept up.
struct LoaderStatistics {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::chrono::duration<double> consumer_waited{};   ///< for batches, or filling them itself
  std::chrono::duration<double> producers_waited{};  ///< for room, all workers together
};

/// Delivers the batches of a plan, filled. What is delivered depends on the set, the plan and the
/// pipeline, never on mode, workers or buffers.
///
/// One thread calls it; batches may be released by any. Destroying it ends its workers within the
/// time of one sample; batches that are still held stay valid.
///
/// Errors: `Options` for what cannot be meant, from the constructor; from `next` what a sample's
/// reading threw, with its index and source in the message, at the batch that it belongs to, after
/// which only `begin` and destruction are allowed; what the plan threw, after which only
/// destruction is; `Timeout` where all buffers are held.
class LOCKSTEP_API Loader {
 public:
  Loader(DatasetPtr set, BatchPlanPtr plan, const LoaderOptions& options = {});
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  std::int64_t batches_per_epoch() const noexcept;
  /// The fields of a batch.
  const std::vector<Field>& fields() const noexcept;
  int workers() const noexcept;

  /// Goes to a place; a loader begins at batch 0 of epoch 0. Where that is the next one anyway,
  /// what is filled already is kept.
  void begin(std::int64_t epoch, std::int64_t first_batch = 0);

  /// The next batch; nothing at the end of the epoch, after which the next epoch begins. `spans` is
  /// told of what the caller's thread fills itself.
  std::optional<Batch> next(events::SpanSink* spans = nullptr);

  LoaderStatistics statistics() const;

  /// The batches of one epoch: `for (auto& batch : loader.epoch(3))`.
  class Epoch;
  Epoch epoch(std::int64_t epoch, std::int64_t first_batch = 0);

 private:
  struct LOCKSTEP_INTERNAL State;
  std::unique_ptr<State> state_;
};

/// A range that can be walked once. Each batch is released when the next is asked for.
class Loader::Epoch {
 public:
  class Iterator {
   public:
    explicit Iterator(Epoch* epoch) noexcept : epoch_(epoch) {}
    Batch& operator*() const { return *epoch_->current_; }
    Iterator& operator++() {
      epoch_->advance();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !epoch_->current_.has_value(); }

   private:
    Epoch* epoch_;
  };

  Epoch(Loader& loader, std::int64_t size) : loader_(&loader), size_(size) {}
  /// The batches from the first on that was asked for.
  std::int64_t size() const noexcept { return size_; }
  Iterator begin() {
    advance();
    return Iterator(this);
  }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  void advance() {
    current_.reset();
    current_ = loader_->next();
  }

  Loader* loader_;
  std::int64_t size_;
  std::optional<Batch> current_;
};

}  // namespace lockstep::data
