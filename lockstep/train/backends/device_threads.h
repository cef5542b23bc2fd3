#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::train {

/// A thread for each device of this instance, on which all that the device computes is computed:
/// how many threads libtorch uses, and for whom it draws, belongs to the thread that calls it.
///
/// One thread calls `run`.
class DeviceThreads {
 public:
  /// `prepare` is what each thread does first.
  DeviceThreads(int count, const std::function<void()>& prepare);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  int count() const noexcept { return static_cast<int>(threads_.size()); }

  /// Runs `work(device)` on all of them, and returns when all are done. Throws what one threw: the
  /// first in time. `give_up` is called then, so that the others need not wait for it for ever.
  void run(
      const std::function<void(int device)>& work, const std::function<void()>& give_up = [] {});

 private:
  void stop();
  void serve(int device, const std::function<void()>& prepare);
  void work_once(int device);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;  ///< how often `run` was called
  int running_ = 0;
  bool stops_ = false;
  const std::function<void(int)>* work_ = nullptr;
  const std::function<void()>* give_up_ = nullptr;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::train
