#pragma once

#include <condition_variable>
#include <mutex>

namespace lockstep::train {

/// Lets replicas hand in their leaves in the order of their numbers, whatever thread runs them.
class Turn {
 public:
  void begin_with(int number) {
    const std::lock_guard lock(mutex_);
    next_ = number;
    given_up_ = false;
  }

  /// Waits until it is this one's turn. Returns false where somebody before it has failed.
  bool wait_for(int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return given_up_ || next_ == number; });
    return !given_up_;
  }

  bool is_given_up() const {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

  void pass_on() {
    const std::lock_guard lock(mutex_);
    ++next_;
    changed_.notify_all();
  }

  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int next_ = 0;
  bool given_up_ = false;
};

}  // namespace lockstep::train
