#include "lockstep/comm/work.h"

#include "lockstep/comm/work_queue.h"

namespace lockstep::comm {

void Work::State::run(const std::function<void()>& operation) {
  std::exception_ptr error;
  try {
    operation();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    is_done_ = true;
  }
  changed_.notify_all();
}

bool Work::State::is_done() const {
  const std::lock_guard lock(mutex_);
  return is_done_;
}

std::exception_ptr Work::State::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_done_; });
  return error_;
}

Work& Work::operator=(Work&& other) noexcept {
  if (state_) state_->wait();
  state_ = std::move(other.state_);
  return *this;
}

Work::~Work() {
  if (state_) state_->wait();
}

bool Work::done() const {
  return !state_ || state_->is_done();
}

void Work::wait() {
  if (!state_) return;
  if (const auto error = state_->wait()) std::rethrow_exception(error);
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Work WorkQueue::push(std::function<void()> operation) {
  auto state = std::make_shared<Work::State>();
  {
    const std::lock_guard lock(mutex_);
    // First: where no thread can be started, nothing may stay queued.
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    waiting_.push_back({std::move(operation), state});
    ++unfinished_;
  }
  changed_.notify_all();
  return Work(std::move(state));
}

bool WorkQueue::is_idle() const {
  const std::lock_guard lock(mutex_);
  return unfinished_ == 0;
}

/// What is in the queue is done even while closing: peers wait for their counterparts.
void WorkQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next.state->run(next.operation);
    lock.lock();
    --unfinished_;
  }
}

}  // namespace lockstep::comm
