#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/data/loader/loader.h"

namespace lockstep::train {

/// Hands the batches of a loader to the devices that they are for. Each device asks for its next
/// one; who finds none takes batches from the loader, also those of others, until one is its own.
///
/// Any thread may ask, each for its own device. So nobody has to stand between loader and devices,
/// and a device that is ahead waits only while every buffer is held.
class BatchSource {
 public:
  using DeviceOf = std::function<int(const data::BatchPlace&)>;

  BatchSource(data::Loader& loader, int devices, DeviceOf device_of);

  /// Nothing at the end of the epoch. Errors: those of `data::Loader::next`.
  std::optional<data::Batch> next(int device);

  /// Somebody will not come for its batches: their memory is the loader's again, so that nobody
  /// waits for it. What `next` gives from then on is some later batch.
  void give_up();

 private:
  std::optional<data::Batch> ask_loader(std::unique_lock<std::mutex>& lock);

  data::Loader& loader_;
  DeviceOf device_of_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;  ///< somebody is at the loader, and may wait there
  bool has_given_up_ = false;
  std::vector<std::deque<data::Batch>> waiting_;
};

}  // namespace lockstep::train
