#include "lockstep/train/backends/gpu/gpu_snapshots.h"

namespace lockstep::train {

void GpuSnapshots::begin(const Progress& progress) {
  if (is_first()) gpu_.begin_download(state_.sum().next_state());
  progress_ = progress;
  is_under_way_ = true;
}

void GpuSnapshots::commit_arrived() {
  if (!is_under_way_) return;
  std::int64_t is_there = is_first() && gpu_.is_downloaded() ? 1 : 0;
  if (communicator_.size() > 1) {
    communicator_.broadcast({&is_there, 1, DataType::I64, "snapshot"}, 0);
  }
  if (is_there != 0) commit();
}

void GpuSnapshots::finish() {
  if (!is_under_way_) return;
  if (is_first()) gpu_.wait_for_download();
  commit();
}

void GpuSnapshots::commit() {
  is_under_way_ = false;
  state_.publish([&](std::byte* next, float*) { state_.shape().progress(next) = progress_; });
}

}  // namespace lockstep::train
