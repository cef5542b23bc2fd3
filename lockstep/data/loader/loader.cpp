#include "lockstep/data/loader/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/owned_cores.h"
#include "lockstep/data/loader/ring.h"
#include "lockstep/data/loader/sample_filler.h"

namespace lockstep::data {
namespace {

constexpr int kMostWorkers = 1024;

void check_range(const char* name, int value, int least, int most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorKind::Options,
              fmt::format("loader: {}: expected {} to {}, found {}", name, least, most, value));
}

int decide_workers(const LoaderOptions& options) {
  if (options.workers) check_range("workers", *options.workers, 0, kMostWorkers);
  return workers_for(options.mode, options.workers, owned_cores());
}

Ring::Ahead decide_ahead(const LoaderOptions& options) {
  if (options.mode == LoaderMode::Sync) return Ring::Ahead::None;
  return options.early_preload ? Ring::Ahead::Unbounded : Ring::Ahead::WithinEpoch;
}

Ring::Options ring_options(const LoaderOptions& options) {
  return {.slots = options.buffers,
          .ahead = decide_ahead(options),
          .held_too_long = std::chrono::duration_cast<Ring::Clock::duration>(options.patience)};
}

BatchPlanPtr checked(BatchPlanPtr plan) {
  if (!plan) throw Error(ErrorKind::Options, "loader: expected a plan, found a null pointer");
  return plan;
}

void fill_samples(const SampleFiller& filler, const Ring& ring, const Ring::Slot& slot,
                  std::span<const std::int64_t> indexes, std::int64_t& at,
                  SampleFiller::Scratch& scratch) {
  for (const auto index : indexes) {
    if (ring.is_stopped()) return;  // nobody will look at it
    const Draws draws{.seed = ring.plan().seed(),
                      .epoch = static_cast<std::uint32_t>(slot.place.epoch),
                      .sample = static_cast<std::uint64_t>(index)};
    filler.fill(index, draws, slot.memory, at, scratch);
    ++at;
  }
}

void fill_chunk(const SampleFiller& filler, Ring& ring, const Ring::Chunk& chunk,
                SampleFiller::Scratch& scratch) {
  auto& slot = *chunk.slot;
  const auto start = Ring::Clock::now();
  const auto indexes =
      std::span(slot.indexes)
          .subspan(static_cast<std::size_t>(chunk.first), static_cast<std::size_t>(chunk.count));
  auto at = chunk.first;
  bool has_indexes = false;
  std::optional<Ring::Failure> failure;
  try {
    ring.plan().samples(slot.place, chunk.first, indexes);
    has_indexes = true;
    fill_samples(filler, ring, slot, indexes, at, scratch);
  } catch (...) {
    failure = Ring::Failure{at, !has_indexes, std::current_exception()};
  }
  ring.finish(chunk, Ring::Clock::now() - start, std::move(failure));
}

/// Tells a sink what its thread fills: chunks of one step that follow each other closely are one
/// span, since they are too short and too many to be looked at one by one.
class FillSpans {
 public:
  FillSpans(events::SpanSink* sink, std::int64_t batches_per_step) noexcept
      : sink_(sink), batches_per_step_(batches_per_step) {}
  ~FillSpans() { flush(); }
  FillSpans(const FillSpans&) = delete;
  FillSpans& operator=(const FillSpans&) = delete;

  template <typename Fill>
  void time(const Ring& ring, const Ring::Chunk& chunk, const Fill& fill) {
    if (sink_ == nullptr) return fill();
    const auto& place = chunk.slot->place;
    const auto batch = place.epoch * ring.plan().batches_per_epoch() + place.number;
    const auto begin = events::monotonic_nanoseconds();
    fill();
    add({.kind = events::SpanKind::Load,
         .begin = begin,
         .end = events::monotonic_nanoseconds(),
         .step = batch / batches_per_step_ + 1});
  }

 private:
  static constexpr std::int64_t kLongestGap = 20'000;  // nanoseconds

  void add(const events::Span& span) noexcept {
    const bool goes_on = span.step == open_.step && span.begin - open_.end <= kLongestGap;
    if (goes_on) {
      open_.end = span.end;
    } else {
      flush();
      open_ = span;
    }
  }
  void flush() noexcept {
    if (open_.end > 0) sink_->on(open_);
    open_ = {};
  }

  events::SpanSink* sink_;
  std::int64_t batches_per_step_;
  events::Span open_{};
};

/// Where a sample is that could not be read, as far as that is known.
std::string where(const Ring::Slot& slot, const Dataset& set) {
  if (slot.failure->is_of_the_plan) {
    return fmt::format("loader: epoch {}, batch {}: ", slot.place.epoch, slot.place.number);
  }
  const auto index = slot.indexes[static_cast<std::size_t>(slot.failure->position)];
  const auto source = index >= 0 && index < set.size() ? set.source_of(index) : "";
  return fmt::format("loader: epoch {}, sample {}{}: ", slot.place.epoch, index,
                     source.empty() ? "" : fmt::format(" ({})", source));
}

/// What a sample's reading threw, with what the reader of the message needs to find it.
[[noreturn]] void raise(const Ring::Slot& slot, const Dataset& set) {
  try {
    std::rethrow_exception(slot.failure->cause);
  } catch (const Error& error) {
    throw Error(error.kind(), where(slot, set) + error.what(), error.hint());
  } catch (const std::exception& error) {
    throw Error(ErrorKind::Data, where(slot, set) + error.what());
  } catch (...) {
    throw Error(ErrorKind::Data, where(slot, set) + "an exception that is no std::exception");
  }
}

}  // namespace

struct Loader::State {
  State(DatasetPtr set, BatchPlanPtr plan, const LoaderOptions& options)
      : filler(std::move(set), options.pipeline, options.image_field),
        scratch(filler.set()),
        batches_per_step(options.batches_per_step),
        ring(std::make_shared<Ring>(checked(std::move(plan)), filler.fields(),
                                    ring_options(options), options.allocate)) {}

  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ring->stop(); }  // and the workers are joined

  void start_workers(int count, events::SpanTracks* spans) {
    for (int i = 0; i < count; ++i) {
      auto* const track = spans ? &spans->track(fmt::format("loader {}", i)) : nullptr;
      workers.emplace_back([this, track] {
        try {
          SampleFiller::Scratch own(filler.set());
          FillSpans told(track, batches_per_step);
          while (const auto chunk = ring->claim()) {
            told.time(*ring, *chunk, [&] { fill_chunk(filler, *ring, *chunk, own); });
          }
        } catch (...) {
          ring->fail(std::current_exception());
        }
      });
    }
  }

  /// Waits for the next batch; fills what nobody fills meanwhile.
  Ring::Slot& await_next(events::SpanSink* spans) {
    FillSpans told(spans, batches_per_step);
    while (true) {
      if (const auto chunk = ring->try_claim()) {
        told.time(*ring, *chunk, [&] { fill_chunk(filler, *ring, *chunk, scratch); });
      } else if (auto* const slot = ring->take()) {
        return *slot;
      }
    }
  }

  SampleFiller filler;
  SampleFiller::Scratch scratch;
  std::int64_t batches_per_step;
  std::shared_ptr<Ring> ring;
  std::int64_t epoch = 0;
  std::int64_t number = 0;
  bool is_begun = false;
  bool has_failed = false;
  LoaderStatistics statistics;
  std::vector<std::jthread> workers;  // last: they use all of the above
};

int workers_for(LoaderMode mode, std::optional<int> asked, int cores) noexcept {
  if (asked) return *asked;
  return mode == LoaderMode::Sync ? 0 : std::max(1, cores - 1);
}

LoaderMode parse_loader_mode(std::string_view name) {
  if (name == "sync") return LoaderMode::Sync;
  if (name == "async" || name == "rebatched") return LoaderMode::Async;
  throw Error(ErrorKind::Options,
              fmt::format("loader: mode: expected sync, async or rebatched, found '{}'", name));
}

std::string_view name_of(LoaderMode mode) noexcept {
  return mode == LoaderMode::Sync ? "sync" : "async";
}

Loader::Loader(DatasetPtr set, BatchPlanPtr plan, const LoaderOptions& options) {
  check_range("buffers", options.buffers, 1, kMostBuffers);
  if (options.batches_per_step < 1) {
    throw Error(ErrorKind::Options,
                fmt::format("loader: batches_per_step: expected at least 1, found {}",
                            options.batches_per_step));
  }
  const auto workers = decide_workers(options);
  state_ = std::make_unique<State>(std::move(set), std::move(plan), options);
  state_->start_workers(workers, options.spans);
}

Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

std::int64_t Loader::batches_per_epoch() const noexcept {
  return state_->ring->plan().batches_per_epoch();
}

const std::vector<Field>& Loader::fields() const noexcept {
  return state_->filler.fields();
}

int Loader::workers() const noexcept {
  return static_cast<int>(state_->workers.size());
}

void Loader::begin(std::int64_t epoch, std::int64_t first_batch) {
  // Random decisions know epochs of 32 bits.
  constexpr std::int64_t kLastEpoch = std::numeric_limits<std::uint32_t>::max();
  if (epoch < 0 || epoch > kLastEpoch || first_batch < 0 || first_batch > batches_per_epoch()) {
    throw Error(ErrorKind::Options,
                fmt::format("loader: begin: expected an epoch of 0 to {} and a batch of 0 to {}, "
                            "found epoch {} and batch {}",
                            kLastEpoch, batches_per_epoch(), epoch, first_batch));
  }
  auto& state = *state_;
  state.epoch = epoch;
  state.number = first_batch;
  state.is_begun = true;
  state.has_failed = false;
  if (first_batch < batches_per_epoch()) state.ring->seek(epoch, first_batch);
}

std::optional<Batch> Loader::next(events::SpanSink* spans) {
  auto& state = *state_;
  if (state.has_failed) {
    throw Error(ErrorKind::Options,
                "loader: next: a sample could not be read; `begin` was expected before going on");
  }
  if (!state.is_begun) begin(state.epoch, state.number);
  if (state.number == batches_per_epoch()) {
    ++state.epoch;
    state.number = 0;
    state.is_begun = false;
    return std::nullopt;
  }
  const auto start = Ring::Clock::now();
  auto& slot = state.await_next(spans);
  state.statistics.consumer_waited += Ring::Clock::now() - start;
  Batch batch(state.ring, &slot);
  if (slot.failure) {
    state.has_failed = true;
    raise(slot, state.filler.set());
  }
  ++state.number;
  ++state.statistics.batches;
  state.statistics.samples += batch.size();
  return batch;
}

LoaderStatistics Loader::statistics() const {
  auto statistics = state_->statistics;
  statistics.producers_waited = state_->ring->producers_waited();
  return statistics;
}

Loader::Epoch Loader::epoch(std::int64_t epoch, std::int64_t first_batch) {
  begin(epoch, first_batch);
  return {*this, batches_per_epoch() - first_batch};
}

}  // namespace lockstep::data
