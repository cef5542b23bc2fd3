#include "lockstep/checkpoint/background_writer.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

double cpu_seconds_of_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Threads inherit what is blocked.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct BackgroundWriter::Impl {
  explicit Impl(CheckpointFolder to) : folder(std::move(to)) {
    const NoSignals blocked;
    thread = std::thread([this] { run(); });
  }

  void run();
  Written write(std::function<Content()> make);
  void write_content(const std::function<Content()>& make, Written& written);

  CheckpointFolder folder;  ///< the thread's alone, but for its path
  std::mutex mutex;
  std::condition_variable changed;
  std::function<Content()> next;  ///< what the thread has not taken yet
  bool is_busy = false;           ///< from `begin` until there is a result
  bool is_over = false;
  std::vector<Written> results;
  std::thread thread;
};

void BackgroundWriter::Impl::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return next || is_over; });
    if (!next) return;
    auto make = std::exchange(next, nullptr);
    lock.unlock();
    auto written = write(std::move(make));
    lock.lock();
    results.push_back(std::move(written));
    is_busy = false;
    changed.notify_all();
  }
}

/// Takes `make`, so that what it holds is gone when this returns.
Written BackgroundWriter::Impl::write(std::function<Content()> make) {
  const auto start = std::chrono::steady_clock::now();
  const auto cpu_start = cpu_seconds_of_thread();
  Written written;
  try {
    write_content(make, written);
  } catch (const std::exception& error) {
    written.error = error.what();
  }
  make = nullptr;
  written.cpu_seconds = cpu_seconds_of_thread() - cpu_start;
  written.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return written;
}

void BackgroundWriter::Impl::write_content(const std::function<Content()>& make, Written& written) {
  const auto content = make();
  written.step = content.manifest.position.step;
  written.reason = content.manifest.reason;
  written.path = folder.write(content);
}

BackgroundWriter::BackgroundWriter(CheckpointFolder folder)
    : impl_(std::make_unique<Impl>(std::move(folder))) {}

BackgroundWriter::~BackgroundWriter() {
  wait();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->is_over = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

const std::filesystem::path& BackgroundWriter::path() const noexcept {
  return impl_->folder.path();
}

bool BackgroundWriter::is_busy() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->is_busy;
}

void BackgroundWriter::begin(std::function<Content()> make) {
  if (!make) throw Error(ErrorKind::Bug, "checkpoint: expected what makes one, found nothing");
  wait();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->next = std::move(make);
    impl_->is_busy = true;
  }
  impl_->changed.notify_all();
}

void BackgroundWriter::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return !impl_->is_busy; });
}

std::vector<Written> BackgroundWriter::take_results() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->results, {});
}

}  // namespace lockstep::checkpoint
