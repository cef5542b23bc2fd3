#include "lockstep/comm/host/gate.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace lockstep::comm::host {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "the kernel sees the word itself");

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Patience patience(int instances_per_core) noexcept {
  constexpr int kSpins = 1000;
  // About a millisecond where nobody else wants the core. Where others work on it, each yield
  // lasts as long as their turn, and costs no more than the switch.
  constexpr int kYields = 3000;
  return {.spins = instances_per_core == 1 ? kSpins : 0, .yields = kYields};
}

bool Gate::arrive(std::uint32_t size) noexcept {
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < size) return false;
  arrived_.store(0, std::memory_order_relaxed);
  // Sequentially consistent, as is the sleepers' side: either the opener sees a sleeper, or the
  // sleeper sees the gate open.
  opened_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    ::syscall(SYS_futex, &opened_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  return true;
}

bool Gate::wait_briefly(std::uint32_t passage, Patience patience) const noexcept {
  for (int i = 0; i < patience.spins; ++i) {
    if (is_open(passage)) return true;
    relax();
  }
  // Among others who work, a turn may take long; who waits must look around all the same.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  for (int i = 0; i < patience.yields && std::chrono::steady_clock::now() < end; ++i) {
    if (is_open(passage)) return true;
    ::sched_yield();
  }
  return is_open(passage);
}

bool Gate::sleep(std::uint32_t passage, std::chrono::milliseconds limit) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{.tv_sec = seconds.count(),
                         .tv_nsec = std::chrono::nanoseconds(limit - seconds).count()};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (!is_open(passage)) {
    ::syscall(SYS_futex, &opened_, FUTEX_WAIT, passage, &timeout, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return is_open(passage);
}

}  // namespace lockstep::comm::host
