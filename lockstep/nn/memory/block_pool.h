#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

namespace lockstep::nn {

/// Memory that is kept for whoever next asks for about as much.
///
/// A training step takes and gives back the same sizes in the same order, step after step. malloc
/// hands large ones back to the kernel each time, which then clears every page again: up to a third
/// of a step. Here each size, rounded up by at most an eighth, has a list of blocks that wait.
///
/// It never holds more than twice of what was once in use at the same time: before it asks the
/// kernel for more, it gives back what waits. Any thread may call any member; a block may be given
/// back by another thread than took it.
class BlockPool {
 public:
  struct Use {
    std::size_t taken = 0;       ///< bytes in blocks that somebody has
    std::size_t waiting = 0;     ///< bytes in blocks that wait
    std::size_t peak = 0;        ///< the most that was ever taken at the same time
    std::size_t asked = 0;       ///< how often the kernel was asked for a block
    std::size_t bytes = 0;       ///< that those who have blocks asked for, of small ones too
    std::size_t most_bytes = 0;  ///< the most that this was, since the peak was begun anew
  };

  BlockPool() = default;
  /// Gives back what waits. Blocks that somebody has stay valid, and may not be given back any
  /// more.
  ~BlockPool() { release(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A block of at least `bytes`, aligned to 64. Contents are whatever they are.
  ///
  /// Errors: `std::bad_alloc`, when the kernel has none even after all that waits was given back.
  void* take(std::size_t bytes);
  void give(void* block) noexcept;

  /// Gives all blocks that wait back to the kernel.
  void release() noexcept;

  Use use() const;

  /// From here on, `most_bytes` is of what is asked for from here on.
  void restart_peak() noexcept;

 private:
  static constexpr std::size_t kClasses = 8 * 48;

  void* take_pooled(std::size_t bytes);
  void* take_waiting(std::size_t size_class);
  void* take_fresh(std::size_t size_class);
  bool release_largest() noexcept;
  void count_taken(std::size_t bytes) noexcept;

  mutable std::mutex mutex_;
  std::array<std::vector<void*>, kClasses> waiting_;
  Use use_;
  // Small blocks do not take the lock.
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<std::size_t> most_bytes_ = 0;
};

}  // namespace lockstep::nn
