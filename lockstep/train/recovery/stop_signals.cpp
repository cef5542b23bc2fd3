#include "lockstep/train/recovery/stop_signals.h"

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <mutex>

namespace lockstep::train {
namespace {

// A signal handler has no argument for its data, so the data are global.
std::atomic<bool> wants_checkpoint{false};
std::atomic<std::int64_t> asked_to_stop_ns{0};  // time of the request; 0: none
struct sigaction before_stop;
struct sigaction before_checkpoint;
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler may not lock");

std::mutex users_mutex;
int users = 0;

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

void note(int signal) {
  if (signal == SIGUSR1) {
    wants_checkpoint.store(true);
    return;
  }
  std::int64_t first = 0;
  const auto now = now_ns();
  if (asked_to_stop_ns.compare_exchange_strong(first, now) || now - first < kSecond) return;
  // A second request does not wait for the end of the step.
  ::sigaction(SIGTERM, &before_stop, nullptr);
  ::raise(SIGTERM);
}

void handle(int signal, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, &before);
}

}  // namespace

StopSignals::StopSignals() {
  const std::lock_guard lock(users_mutex);
  if (users++ > 0) return;
  handle(SIGTERM, before_stop);
  handle(SIGUSR1, before_checkpoint);
}

StopSignals::~StopSignals() {
  const std::lock_guard lock(users_mutex);
  if (--users > 0) return;
  ::sigaction(SIGTERM, &before_stop, nullptr);
  ::sigaction(SIGUSR1, &before_checkpoint, nullptr);
}

bool StopSignals::take_checkpoint_request() noexcept {
  return wants_checkpoint.exchange(false);
}

bool StopSignals::wants_stop() const noexcept {
  return asked_to_stop_ns.load() != 0;
}

void StopSignals::forget_stop() noexcept {
  asked_to_stop_ns.store(0);
}

}  // namespace lockstep::train
