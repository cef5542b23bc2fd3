#include "lockstep/train/gpu_snapshots.h"

namespace lockstep::train {

void GpuSnapshots::begin(const Progress& progress) {
  gpu_.begin_download(updates_.next_state());
  progress_ = progress;
  is_under_way_ = true;
}

void GpuSnapshots::commit_arrived() {
  if (is_under_way_ && gpu_.is_downloaded()) commit();
}

void GpuSnapshots::finish() {
  if (!is_under_way_) return;
  gpu_.wait_for_download();
  commit();
}

void GpuSnapshots::commit() {
  is_under_way_ = false;
  updates_.initialize([&](std::byte* state) { shape_.progress(state) = progress_; });
}

}  // namespace lockstep::train
