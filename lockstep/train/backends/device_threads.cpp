#include "lockstep/train/backends/device_threads.h"

namespace lockstep::train {

DeviceThreads::DeviceThreads(int count, const std::function<void()>& prepare) {
  try {
    for (int device = 0; device < count; ++device) {
      threads_.emplace_back([this, device, prepare] { serve(device, prepare); });
    }
  } catch (...) {  // the system has no more threads
    stop();
    throw;
  }
}

DeviceThreads::~DeviceThreads() {
  stop();
}

void DeviceThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void DeviceThreads::run(const std::function<void(int)>& work,
                        const std::function<void()>& give_up) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  give_up_ = &give_up;
  error_ = nullptr;
  running_ = count();
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void DeviceThreads::serve(int device, const std::function<void()>& prepare) {
  prepare();
  std::uint64_t served = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || round_ != served; });
    if (stops_) return;
    served = round_;
    lock.unlock();
    work_once(device);
    lock.lock();
    if (--running_ == 0) changed_.notify_all();
  }
}

void DeviceThreads::work_once(int device) {
  try {
    (*work_)(device);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    (*give_up_)();
  }
}

}  // namespace lockstep::train
