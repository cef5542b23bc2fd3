#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/export.h"
#include "lockstep/base/random_stream.h"

namespace lockstep::gpu {
struct DrawPlace;
struct GroupKeys;
}  // namespace lockstep::gpu

namespace lockstep::nn {

/// For what a replica computes: one micro-batch of one optimizer step.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t replica = 0;
  std::uint32_t micro_batch = 0;
};

/// While it lives, everything random that the calling thread computes is drawn for one key: by our
/// own layers, and by libtorch's random operations in modules of other people, which otherwise
/// share one generator of the process.
///
/// What is drawn is a function of the key, the block and the number of the call within the block.
/// So it does not depend on what other replicas do, on which thread runs a block, or on whether a
/// block is computed a second time. A stage that runs blocks of several micro-batches in turn opens
/// a scope for each.
///
/// Scopes nest; the innermost counts. One lives and dies in one thread. A backward pass on the CPU
/// runs in the thread that started it, and is inside its scope.
///
/// Errors: a random operation that takes no generator, or runs on a device that has none of ours,
/// throws `Unavailable` by its name.
class LOCKSTEP_API RandomScope {
 public:
  explicit RandomScope(const DrawKey& key, std::uint32_t block = 0);
  /// For several micro-batches at once, on a GPU: each part of a batch draws what it would draw
  /// alone.
  explicit RandomScope(const gpu::GroupKeys* keys);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  /// The innermost scope of the calling thread; nothing outside of any.
  static RandomScope* current() noexcept;

  /// From here on, draws are for this block, from its first call on.
  void enter_block(std::uint32_t block) noexcept;

  /// What the next random operation of the block draws from.
  RandomStream next_call() noexcept;

  /// Null unless the scope is for several micro-batches, whose draws `gpu::draw_mask` makes.
  const gpu::GroupKeys* groups() const noexcept { return groups_.get(); }
  /// The same as `next_call`, for that.
  gpu::DrawPlace next_place() noexcept;

 private:
  RandomScope* outer_;
  std::uint64_t key_of_micro_batch_ = 0;
  std::unique_ptr<const gpu::GroupKeys> groups_;
  std::uint32_t block_ = 0;
  std::uint32_t calls_ = 0;
};

/// What the next random layer draws from: the scope's stream; outside of any, one that libtorch's
/// own generator seeds, so that `torch::manual_seed` counts.
LOCKSTEP_API RandomStream next_random_stream();

/// The key for making something from a seed, as the weights of a module: apart from every step.
constexpr DrawKey making_key(std::uint64_t seed) noexcept {
  return {.seed = seed, .step = ~std::uint64_t{0}};
}

/// Calls `make`, which makes a module of whatever kind, so that the weights which its constructors
/// draw are those of the seed: the same bits in every process.
template <typename Make>
auto make_seeded(std::uint64_t seed, const Make& make) {
  const RandomScope scope(making_key(seed));
  return make();
}

}  // namespace lockstep::nn
