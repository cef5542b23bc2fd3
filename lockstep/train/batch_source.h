#pragma once

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
  std::optional<data::Batch> take_waiting(int device);

  data::Loader& loader_;
  DeviceOf device_of_;
  std::mutex loader_mutex_;   ///< whoever asks the loader holds it, and may wait there
  std::mutex waiting_mutex_;  ///< apart, so that the others can take what is theirs meanwhile
  std::vector<std::deque<data::Batch>> waiting_;
};

}  // namespace lockstep::train
