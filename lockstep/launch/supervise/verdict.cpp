#include "lockstep/launch/supervise/verdict.h"

#include "lockstep/base/error.h"

namespace lockstep::launch {

bool has_stopped(const events::ExitStatus& status) noexcept {
  return status == events::ExitStatus{.code = exit_code(ErrorKind::Stopped)};
}

void Verdict::add(int instance, const events::ExitStatus& status) {
  if (status.success() || has_stopped(status) || cause_) return;
  if (status == events::ExitStatus{.code = exit_code(ErrorKind::PeerLost)}) {
    victims_.push_back(instance);
  } else {
    cause_ = instance;
  }
}

std::optional<int> Verdict::best_guess() const {
  if (cause_) return cause_;
  if (victims_.empty()) return std::nullopt;
  return victims_.front();
}

}  // namespace lockstep::launch
