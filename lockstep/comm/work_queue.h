#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "lockstep/comm/work.h"

namespace lockstep::comm {

/// What a `Work` waits for.
class Work::State {
 public:
  void run(const std::function<void()>& operation);
  bool is_done() const;
  /// Returns what the operation threw, if it did.
  std::exception_ptr wait();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  std::exception_ptr error_;
};

/// Runs operations one after another on a thread of its own, which starts with the first of them.
/// Destruction finishes what is queued.
class WorkQueue {
 public:
  WorkQueue() = default;
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  Work push(std::function<void()> operation);
  /// Whether everything that was pushed is done.
  bool is_idle() const;

 private:
  struct Entry {
    std::function<void()> operation;
    std::shared_ptr<Work::State> state;
  };
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> waiting_;
  int unfinished_ = 0;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
