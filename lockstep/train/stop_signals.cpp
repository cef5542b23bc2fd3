#include "lockstep/train/stop_signals.h"

#include <atomic>
#include <mutex>

namespace lockstep::train {
namespace {

// A handler is handed nothing, so what it changes has to be known to it beforehand.
std::atomic<bool> wants_checkpoint{false};
std::atomic<bool> wants_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a handler may touch nothing else");

void note(int signal) {
  if (signal == SIGUSR1) {
    wants_checkpoint.store(true);
    return;
  }
  if (!wants_to_stop.exchange(true)) return;
  // Whoever asks twice does not want to wait for a step.
  ::signal(SIGTERM, SIG_DFL);
  ::raise(SIGTERM);
}

struct sigaction handle(int signal) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, &before);
  return before;
}

}  // namespace

std::shared_ptr<StopSignals> StopSignals::install() {
  static std::mutex mutex;
  static std::weak_ptr<StopSignals> installed;
  const std::lock_guard lock(mutex);
  auto signals = installed.lock();
  if (!signals) installed = signals = std::shared_ptr<StopSignals>(new StopSignals());
  return signals;
}

StopSignals::StopSignals()
    : before_stop_((wants_to_stop.store(false), handle(SIGTERM))),
      before_checkpoint_((wants_checkpoint.store(false), handle(SIGUSR1))) {}

StopSignals::~StopSignals() {
  ::sigaction(SIGTERM, &before_stop_, nullptr);
  ::sigaction(SIGUSR1, &before_checkpoint_, nullptr);
}

bool StopSignals::take_checkpoint_request() noexcept {
  return wants_checkpoint.exchange(false);
}

bool StopSignals::wants_stop() const noexcept {
  return wants_to_stop.load();
}

}  // namespace lockstep::train
