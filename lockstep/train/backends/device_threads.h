#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::train {

/// One thread for each device of this instance. All work of a device runs on its thread, because
/// libtorch keeps the number of compute threads and the random key by calling thread.
///
/// One thread at a time calls `run`.
class DeviceThreads {
 public:
  /// Each thread calls `prepare` first.
  DeviceThreads(int count, const std::function<void()>& prepare);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  int count() const noexcept { return static_cast<int>(threads_.size()); }

  /// Runs `work(device)` on all threads, and returns when all are done. Throws the first error. A
  /// thread that fails calls `give_up`, so that the others do not wait for it.
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
