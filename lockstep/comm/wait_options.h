#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace lockstep::comm {

/// An instance has kept others waiting.
struct Stall {
  enum class Kind {
    Late,     ///< they are told, and wait on
    Overdue,  ///< they give up
  };

  int instance = 0;
  Kind kind = Kind::Late;
  std::string what{};  ///< the operation, who is missing and what it does
};

/// How long to wait for others, and whom to tell.
struct WaitOptions {
  std::chrono::duration<double> warn_after{10};
  /// Zero waits for ever; a peer that is gone is noticed all the same.
  std::chrono::duration<double> stall_timeout{60};
  /// Gets one line when somebody is late. Called on the thread that waits.
  std::function<void(const std::string&)> warn{};
  /// Gets each stall once for the whole group, from whoever notices it first. Called on the thread
  /// that waits.
  std::function<void(const Stall&)> stalled{};
};

}  // namespace lockstep::comm
