#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::comm::host {

/// How a waiter spends its time before it sleeps in the kernel: it looks again and again, then lets
/// others have the core between looks. Sleeping comes late, because waking up takes long, and lets
/// a core fall asleep too.
struct Patience {
  int spins;
  int yields;
};

/// Waiters keep their core only where everybody has one: else a waiter that spins may do so on the
/// core of the instance that it waits for.
Patience patience(int instances_per_core) noexcept;

/// A barrier in shared memory that a fixed number of threads or processes pass again and again.
/// Zeroed memory is a gate that nobody has reached.
class Gate {
 public:
  /// Counts the caller in; the last of `size` opens the gate for everybody.
  /// Returns whether it is open already.
  bool arrive(std::uint32_t size) noexcept;

  /// Waits for passage number `passage` (0 is the first) without sleeping; returns whether the
  /// gate has opened.
  bool wait_briefly(std::uint32_t passage, Patience patience) const noexcept;

  /// Whether passage number `passage` is behind everybody.
  bool is_open(std::uint32_t passage) const noexcept {
    return opened_.load(std::memory_order_acquire) != passage;
  }

  /// Sleeps until it opens or the time is over; returns whether it has opened.
  bool sleep(std::uint32_t passage, std::chrono::milliseconds limit) noexcept;

 private:
  alignas(64) std::atomic<std::uint32_t> arrived_;
  alignas(64) std::atomic<std::uint32_t> opened_;  ///< how often; what sleepers wait on
  alignas(64) std::atomic<std::uint32_t> sleepers_;
};

}  // namespace lockstep::comm::host
